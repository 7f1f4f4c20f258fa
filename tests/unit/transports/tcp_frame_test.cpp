// The frame reader: what it makes of a byte stream, however that is cut, and of streams that are none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "transports/tcp/frame.h"

namespace tutti::tcp {
namespace {

/// Keeps all it gets; messages of the channels in `dropped` get no target.
class Recorder final : public FrameSink {
 public:
  bool message_begins(const FrameHeader& header, std::byte** target) override {
    if (std::find(dropped.begin(), dropped.end(), header.channel) != dropped.end()) return true;
    under_way.assign(header.bytes, std::byte{0});
    *target = under_way.data();
    return true;
  }
  bool message_ends(const FrameHeader& header) override {
    std::string text(reinterpret_cast<const char*>(under_way.data()), under_way.size());
    log.push_back("data " + std::to_string(header.channel) + " " + std::to_string(header.sequence) + " " + text);
    under_way.clear();
    return true;
  }
  bool control(const FrameHeader& header) override {
    log.push_back("kind " + std::to_string(header.kind) + " " + std::to_string(header.channel) + " " +
                  std::to_string(header.sequence));
    return true;
  }
  void malformed(const FrameHeader&, const char* what) override { log.push_back(std::string("malformed: ") + what); }

  std::vector<std::uint32_t> dropped;
  std::vector<std::string> log;
  std::vector<std::byte> under_way;
};

void append(std::string& stream, const FrameHeader& header, const std::string& payload = {}) {
  stream.append(reinterpret_cast<const char*>(&header), sizeof header);
  stream += payload;
}

std::string data_frame(std::uint64_t channel, std::uint64_t sequence, const std::string& payload) {
  std::string stream;
  append(stream, control_frame(FrameKind::kData, channel, sequence, payload.size()), payload);
  return stream;
}

/// Feeds the stream in reads of at most `piece(room)` bytes; false once the reader refuses.
template <typename Piece>
bool feed(FrameReader& reader, const std::string& stream, const Piece& piece) {
  std::size_t at = 0;
  while (at < stream.size()) {
    iovec pieces[2];
    const int n = reader.spans(pieces);
    std::size_t room = pieces[0].iov_len + (n == 2 ? pieces[1].iov_len : 0);
    std::size_t take = std::min({piece(room), room, stream.size() - at});
    EXPECT_GT(take, 0u);
    const std::size_t first = std::min(take, pieces[0].iov_len);
    std::memcpy(pieces[0].iov_base, stream.data() + at, first);
    if (take > first) std::memcpy(pieces[1].iov_base, stream.data() + at + first, take - first);
    at += take;
    if (!reader.consume(take)) return false;
  }
  return true;
}

std::string long_text(std::size_t n) {
  std::string text(n, ' ');
  for (std::size_t i = 0; i < n; ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 251) % 26);
  return text;
}

std::string sample_stream() {
  std::string stream = data_frame(3, 0, "hello");
  append(stream, control_frame(FrameKind::kCredit, 9, 17));
  stream += data_frame(3, 1, "");
  stream += data_frame(4, 0, long_text(200'000));
  stream += data_frame(3, 2, long_text(9000));
  append(stream, control_frame(FrameKind::kClose, 3));
  stream += data_frame(5, 0, "end");
  return stream;
}

std::vector<std::string> sample_log() {
  return {"data 3 0 hello", "kind 2 9 17", "data 3 1 ", "data 4 0 " + long_text(200'000), "data 3 2 " + long_text(9000),
          "kind 4 3 0",     "data 5 0 end"};
}

TEST(TcpFrameReader, FindsTheSameFramesByteByByte) {
  Recorder recorder;
  FrameReader reader(recorder);
  EXPECT_TRUE(feed(reader, sample_stream(), [](std::size_t) { return std::size_t{1}; }));
  EXPECT_EQ(recorder.log, sample_log());
  EXPECT_TRUE(reader.at_boundary());
}

TEST(TcpFrameReader, FindsTheSameFramesInReadsOfAnyLength) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Recorder recorder;
    FrameReader reader(recorder);
    const std::size_t longest = std::size_t{1} << (round % 19);
    EXPECT_TRUE(feed(reader, sample_stream(), [&](std::size_t) { return 1 + random() % longest; }));
    ASSERT_EQ(recorder.log, sample_log()) << "reads of up to " << longest << " bytes";
  }
}

TEST(TcpFrameReader, ReadsALongPayloadTogetherWithTheNextHeader) {
  Recorder recorder;
  FrameReader reader(recorder);
  int reads = 0;
  std::string stream;
  for (std::uint64_t i = 0; i < 10; ++i) stream += data_frame(1, i, long_text(100'000));
  EXPECT_TRUE(feed(reader, stream, [&](std::size_t room) { return ++reads, room; }));
  EXPECT_EQ(recorder.log.size(), 10u);
  EXPECT_LE(reads, 12);  // one for the first header, one for each message, one more for what the last header left
}

TEST(TcpFrameReader, DropsWhatHasNoTargetAndStaysInStep) {
  Recorder recorder;
  recorder.dropped = {4};
  FrameReader reader(recorder);
  EXPECT_TRUE(feed(reader, sample_stream(), [](std::size_t room) { return room; }));
  auto expected = sample_log();
  expected[3] = "data 4 0 ";
  EXPECT_EQ(recorder.log, expected);
}

TEST(TcpFrameReader, WritesNothingMoreIntoATargetThatWasTakenAway) {
  Recorder recorder;
  FrameReader reader(recorder);
  const std::string payload(50'000, 'x');
  const std::string stream = data_frame(6, 0, payload) + data_frame(6, 1, "after");
  EXPECT_TRUE(feed(reader, stream.substr(0, 20'000), [](std::size_t room) { return room; }));
  const auto written = [&] { return std::count(recorder.under_way.begin(), recorder.under_way.end(), std::byte{'x'}); };
  const auto before = written();
  ASSERT_GT(before, 0);
  reader.drop_current(5);  // another channel's: no effect
  EXPECT_TRUE(feed(reader, stream.substr(20'000, 10'000), [](std::size_t room) { return room; }));
  EXPECT_EQ(written(), before + 10'000);
  reader.drop_current(6);
  EXPECT_TRUE(feed(reader, stream.substr(30'000, 10'000), [](std::size_t room) { return room; }));
  EXPECT_EQ(written(), before + 10'000);
  EXPECT_TRUE(feed(reader, stream.substr(40'000), [](std::size_t room) { return room; }));
  ASSERT_EQ(recorder.log.size(), 2u);
  EXPECT_EQ(recorder.log[1], "data 6 1 after");
}

TEST(TcpFrameReader, RefusesEveryHeaderThatIsNone) {
  const FrameHeader good = control_frame(FrameKind::kData, 1, 0, 8);
  ASSERT_EQ(header_fault(good), nullptr);
  std::map<std::string, FrameHeader> bad;
  bad["mark"] = good;
  bad["mark"].mark ^= 1;
  bad["kind 0"] = good;
  bad["kind 0"].kind = 0;
  bad["kind 7"] = good;
  bad["kind 7"].kind = 7;
  bad["flags"] = good;
  bad["flags"].flags = 1;
  bad["length"] = good;
  bad["length"].bytes = kMaxMessage + 1;
  for (const auto& [what, header] : bad) {
    Recorder recorder;
    FrameReader reader(recorder);
    std::string stream = data_frame(3, 0, "fine");
    append(stream, header);
    EXPECT_FALSE(feed(reader, stream, [](std::size_t) { return std::size_t{5}; })) << what;
    ASSERT_EQ(recorder.log.size(), 2u) << what;
    EXPECT_EQ(recorder.log[1].substr(0, 9), "malformed") << what;
  }
}

TEST(TcpFrameReader, NeverDeliversAfterACorruptHeader) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    Recorder recorder;
    FrameReader reader(recorder);
    std::string noise(400, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    const std::string stream = data_frame(3, 0, "fine") + noise + data_frame(3, 1, "never");
    feed(reader, stream, [&](std::size_t) { return 1 + random() % 64; });
    for (const auto& line : recorder.log) EXPECT_NE(line, "data 3 1 never");
  }
}

}  // namespace
}  // namespace tutti::tcp
