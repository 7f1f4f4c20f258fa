// MSCCL algorithm files: what they become, and that it is right; a second opinion on that is the referee's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "src/schedule/msccl_file.h"
#include "src/schedule/msccl_xml.h"
#include "tests/support/msccl_files.h"
#include "tests/support/processor_time.h"
#include "tests/support/referee.h"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

MscclAlgorithm read(const std::string& path) {
  auto file = read_msccl(path);
  EXPECT_TRUE(file.ok()) << file.status().text();
  return file.ok() ? std::move(*file) : MscclAlgorithm();
}

/// A text with one replacement, which must be possible.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

/// What the referee finds wrong in matches of many kinds; empty where nothing.
std::string judged(const MscclAlgorithm& file, int matches, std::mt19937_64& random) {
  // The smallest windows there are, so that a few passes are short work.
  const std::uint64_t window = file.schedule(file.problem(1), 1).plan.window;
  for (int m = 0; m < matches; ++m) {
    Match match;
    match.count = m == 0 ? 1 : 1 + random() % (3 * window);
    match.credit = file.shape.credit + static_cast<std::uint32_t>(random() % 3);
    match.in_place = m % 3 * .5;
    match.pulled = m % 4 / 3.0;
    match.put = m % 5 / 4.0;
    const std::string wrong = referee(file.schedule(file.problem(match.count), 1), match, random);
    if (!wrong.empty()) return file.name + ", match " + std::to_string(m) + ": " + wrong;
  }
  return {};
}

/// Steps that `matches`.
template <typename Matches>
int count_steps(const Program& program, Matches matches) {
  return static_cast<int>(std::count_if(program.steps.begin(), program.steps.end(), matches));
}

TEST(Msccl, EveryFileIsProvedAndRightInMatches) {
  std::mt19937_64 random(1);
  for (const std::string& path : all_msccl_files()) {
    const MscclAlgorithm file = read(path);
    if (file.programs.empty()) continue;
    EXPECT_EQ(judged(file, file.ranks > 8 ? 2 : 12, random), "") << path;
  }
  if (shared_msccl_files().empty()) GTEST_SKIP() << "there is no " << shared_msccl("") << ": only our own files were read";
}

TEST(Msccl, SaysWhatItIsFor) {
  const MscclAlgorithm ring = read(own_msccl("allreduce_ring_4x2.xml"));
  EXPECT_EQ(ring.name, "msccl:ring_4x2");
  EXPECT_EQ(ring.collective, Collective::all_reduce);
  EXPECT_EQ(ring.ranks, 4);
  EXPECT_EQ(ring.shape.lanes, 2u);
  EXPECT_EQ(ring.shape.chunks, 8u);
  Problem problem = ring.problem(1000);
  EXPECT_TRUE(ring.fits(problem));
  problem.op = TUTTI_AVG;
  problem.type = TUTTI_BFLOAT16;
  EXPECT_TRUE(ring.fits(problem));
  problem.ranks = 5;
  EXPECT_FALSE(ring.fits(problem));
  const MscclAlgorithm reduce = read(own_msccl("reduce_chain_3.xml"));
  problem = reduce.problem(7);
  EXPECT_EQ(problem.root, 2);
  problem.root = 0;
  EXPECT_FALSE(reduce.is_for(problem));
}

TEST(Msccl, CountsBytesOverAllBlocksAsMscclDoes) {
  const std::string text = text_of_file(own_msccl("alltoall_direct_3.xml"));
  const auto file = parse_msccl(replaced(text, R"(minBytes="0" maxBytes="0")", R"(minBytes="1200" maxBytes="2400")"));
  ASSERT_TRUE(file.ok()) << file.status().text();
  EXPECT_FALSE(file->fits(file->problem(99)));
  EXPECT_TRUE(file->fits(file->problem(100)));  // 100 elements of 4 bytes for each of 3 ranks
  EXPECT_TRUE(file->fits(file->problem(200)));
  EXPECT_FALSE(file->fits(file->problem(201)));
  EXPECT_FALSE(file->fits(file->problem(UINT64_MAX / 12 + 101))) << "1208 bytes, if they began again at 2^64";
  EXPECT_TRUE(file->is_for(file->problem(201)));
}

TEST(Msccl, AFileThatWritesItsInputReadsOursAndCopiesNothing) {
  const MscclAlgorithm ring = read(own_msccl("allreduce_ring_4x2.xml"));
  EXPECT_EQ(ring.shape.scratch_blocks, 0u);
  for (const Program& program : ring.programs) {
    EXPECT_EQ(program.steps.size(), 14u);  // as many as the file has
    EXPECT_EQ(count_steps(program, [](const Step& step) { return (step.flags & last_touch) != 0; }), 2);
  }
}

TEST(Msccl, OutputThatNoStepWritesIsCopied) {
  // In place every rank's own block is there already; out of place it is not.
  const std::string in_place = replaced(text_of_file(own_msccl("allgather_ring_3.xml")), R"(inplace="0" outofplace="1")",
                                        R"(inplace="1" outofplace="0")");
  const auto file = parse_msccl(replaced(in_place, R"(type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1")",
                                         R"(type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0")"));
  ASSERT_TRUE(file.ok()) << file.status().text();
  const Program& program = file->programs[0];
  const Step& last = program.steps[program.lanes[0].first + program.lanes[0].count - 1];
  EXPECT_EQ(program.operands[last.operands].place, Place::input);
  EXPECT_EQ(program.operands[last.operands + 1].place, Place::output);
  std::mt19937_64 random(2);
  EXPECT_EQ(judged(*file, 12, random), "");
}

TEST(Msccl, FoldsThatFollowEachOtherAreOneInTheOrderOfTheRanks) {
  const MscclAlgorithm pairs = read(own_msccl("allreduce_allpairs_4.xml"));
  EXPECT_TRUE(pairs.proof.rank_order);
  for (const Program& program : pairs.programs) {
    EXPECT_EQ(count_steps(program, [](const Step& step) { return step.sources == 4; }), 1);
    EXPECT_EQ(count_steps(program, [](const Step& step) { return step.sources > 1; }), 1);
  }
  // Three chunks of others come to each of a rank's two: three blocks of scratch, not six.
  EXPECT_EQ(pairs.shape.scratch_blocks, 3u);
}

TEST(Msccl, BothSidesOfAnExchangeFoldAlike) {
  const MscclAlgorithm doubling = read(own_msccl("allreduce_doubling_4.xml"));
  EXPECT_TRUE(doubling.proof.rank_order);
}

TEST(Msccl, SeveralChunksTravelInOneMessageWhereTheyMayOverBlocksToo) {
  EXPECT_EQ(read(own_msccl("allreduce_allpairs_4.xml")).proof.messages, 4u * 6);
  EXPECT_EQ(read(own_msccl("alltoall_direct_3.xml")).proof.messages, 3u * 2);
  const MscclAlgorithm two_step = read(own_msccl("alltoall_two_step_4.xml"));
  EXPECT_EQ(two_step.proof.messages, 4u * 2);
  EXPECT_EQ(two_step.shape.message_cells, 2u);
}

TEST(Msccl, WhatIsRightOutOfPlaceOnlyIsMadeRightInPlace) {
  const MscclAlgorithm direct = read(own_msccl("alltoall_direct_3.xml"));
  EXPECT_EQ(direct.shape.lanes, 3u);  // nothing is copied first
  for (const Program& program : direct.programs) {
    const auto kept = [&](const Step& step) {
      return step.destinations == 2 && program.operands[step.operands].place == Place::input;
    };
    EXPECT_EQ(count_steps(program, kept), 2);  // every send lets go of its block
  }
}

TEST(Msccl, InputThatIsReadAfterTheOutputIsWrittenIsStaged) {
  // The send waits for what comes back: in place its block would be overwritten by then.
  std::string text = R"(<algo name="late" nchannels="1" nchunksperloop="2" ngpus="2" coll="alltoall" inplace="0">)";
  for (const int rank : {0, 1}) {
    const std::string own = std::to_string(rank);
    const std::string peer = std::to_string(1 - rank);
    const auto step = [&](int s, const std::string& type, const std::string& from, const std::string& to, bool waits) {
      return "<step s=\"" + std::to_string(s) + "\" type=\"" + type + "\" srcbuf=\"i\" srcoff=\"" + from +
             "\" dstbuf=\"o\" dstoff=\"" + to + "\" cnt=\"1\" depid=\"" + (waits ? "0" : "-1") + "\" deps=\"0\"/>";
    };
    const std::string send = step(0, "s", peer, own, rank == 1);
    const std::string receive = step(0, "r", own, peer, false);
    text += "<gpu id=\"" + own + "\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"0\"><tb id=\"0\" send=\"-1\" recv=\"" + peer +
            "\" chan=\"0\">" + receive + "</tb><tb id=\"1\" send=\"" + peer + "\" recv=\"-1\" chan=\"0\">" + send +
            "</tb><tb id=\"2\" send=\"-1\" recv=\"-1\" chan=\"0\">" + step(0, "cpy", own, own, false) + "</tb></gpu>";
  }
  const auto file = parse_msccl(text + "</algo>");
  ASSERT_TRUE(file.ok()) << file.status().text();
  EXPECT_EQ(file->shape.lanes, 4u);  // the fourth stages
  EXPECT_EQ(file->shape.scratch_blocks, 2u);
  std::mt19937_64 random(3);
  EXPECT_EQ(judged(*file, 12, random), "");
}

TEST(Msccl, FindsTheRootThatAFileDoesNotName) {
  EXPECT_EQ(read(own_msccl("broadcast_chain_3.xml")).root, 1);
  const std::string text = text_of_file(own_msccl("broadcast_chain_3.xml"));
  const auto wrong = parse_msccl(replaced(text, "coll=\"broadcast\"", "coll=\"broadcast\" root=\"2\""));
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.status().text(), HasSubstr("rank "));
}

TEST(Msccl, FindsTheRootOfEveryRootedCollective) {
  for (const char* name : {"gather_3.xml", "scatter_3.xml", "reduce_chain_3.xml", "broadcast_chain_3.xml"}) {
    const std::string text = text_of_file(own_msccl(name));
    const auto named = parse_msccl(text);
    ASSERT_TRUE(named.ok()) << named.status().text();
    const std::string root = " root=\"" + std::to_string(named->root) + "\"";
    const auto found = parse_msccl(text.find(root) == std::string::npos ? text : replaced(text, root, ""));
    ASSERT_TRUE(found.ok()) << name << ": " << found.status().text();
    EXPECT_EQ(found->root, named->root) << name;
    std::mt19937_64 random(4);
    EXPECT_EQ(judged(*found, 6, random), "") << name;
  }
}

/// A broadcast in a chain from the last rank to the first, which does not name its root.
std::string chain_down(int ranks) {
  std::string text = "<algo name=\"down\" nchannels=\"1\" nchunksperloop=\"1\" ngpus=\"" + std::to_string(ranks) +
                     "\" coll=\"broadcast\" inplace=\"0\" outofplace=\"1\">";
  for (int r = 0; r < ranks; ++r) {
    const bool root = r == ranks - 1;
    const std::string type = root ? "s" : r == 0 ? "r" : "rcs";
    text += "<gpu id=\"" + std::to_string(r) + "\" i_chunks=\"1\" o_chunks=\"1\" s_chunks=\"0\"><tb id=\"0\" send=\"" +
            std::to_string(r - 1) + "\" recv=\"" + std::to_string(root ? -1 : r + 1) +
            "\" chan=\"0\"><step s=\"0\" type=\"" + type +
            "\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" depid=\"-1\"/></tb>";
    if (!root) text += "</gpu>";
  }
  return text +
         "<tb id=\"1\" send=\"-1\" recv=\"-1\" chan=\"0\"><step s=\"0\" type=\"cpy\" srcbuf=\"i\" srcoff=\"0\" "
         "dstbuf=\"o\" "
         "dstoff=\"0\" cnt=\"1\" depid=\"-1\"/></tb></gpu></algo>";
}

TEST(Msccl, TheRootIsFoundInOneRun) {
  const test::ProcessorTime taken;
  const auto file = parse_msccl(chain_down(4000));
  ASSERT_TRUE(file.ok()) << file.status().text();
  EXPECT_EQ(file->root, 3999);
  EXPECT_TRUE(taken.within(3)) << "about .1 s in Release";
}

std::string local_step(int number, const std::string& type, int place, int block, int step) {
  return "<step s=\"" + std::to_string(number) + "\" type=\"" + type +
         "\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"s\" dstoff=\"" + std::to_string(place) + "\" cnt=\"1\" depid=\"" +
         std::to_string(block) + "\" deps=\"" + std::to_string(step) + "\"/>";
}

/// A file that is right, in which more thread blocks of rank 0 copy to scratch: one with `row` steps and then as many nops
/// that wait for the first thread block, and `others` with `each` steps that wait for the last of those.
std::string with_rows_of_nops(int row, int others, int each) {
  std::string text = text_of_file(own_msccl("allgather_ring_3.xml"));
  int block = 0;
  for (std::size_t at = 0; (at = text.find("<tb ", at)) < text.find("</gpu>"); ++at) ++block;
  const int nops = block;
  const auto begin = [&] { return "<tb id=\"" + std::to_string(block++) + "\" send=\"-1\" recv=\"-1\" chan=\"0\">"; };
  std::string more = begin();
  for (int s = 0; s < 2 * row; ++s) more += local_step(s, s < row ? "cpy" : "nop", 0, s < row ? -1 : 0, 0);
  for (int other = 0; other < others; ++other) {
    more += "</tb>" + begin();
    for (int s = 0; s < each; ++s) more += local_step(s, "cpy", other + 1, nops, 2 * row - 1);
  }
  text.insert(text.find("</gpu>"), more + "</tb>");
  return replaced(text, "s_chunks=\"0\"", "s_chunks=\"" + std::to_string(others + 1) + "\"");
}

TEST(Msccl, WaitsBehindLongRowsOfStepsAndNopsTakeNoLonger) {
  const test::ProcessorTime taken;
  const auto file = parse_msccl(with_rows_of_nops(50'000, 1, 50'000));
  ASSERT_TRUE(file.ok()) << file.status().text();
  EXPECT_TRUE(taken.within(3)) << "about .5 s in Release";
  EXPECT_THAT(parse_msccl(with_rows_of_nops(9'000, 500, 1)).status().text(), HasSubstr("waits by way of too many nops"));
}

TEST(Msccl, ANopStandsForWhatItWaitsFor) {
  // Thread block 3 folds once the nops before it, and its own step, have waited for all three that receive.
  const MscclAlgorithm pairs = read(own_msccl("allreduce_allpairs_4.xml"));
  for (const Program& program : pairs.programs) {
    const Step& fold = program.steps[program.lanes[3].first];
    EXPECT_EQ(fold.dependency_count, 3u);
  }
}

TEST(Msccl, RefusesACollectiveThatTuttiDoesNotHave) {
  const std::string text = text_of_file(own_msccl("allreduce_ring_4x2.xml"));
  const auto custom = parse_msccl(replaced(text, "coll=\"allreduce\"", "coll=\"custom\""));
  ASSERT_FALSE(custom.ok());
  EXPECT_THAT(custom.status().text(), HasSubstr("the collective \"custom\" is none that Tutti has"));
}

TEST(Msccl, RefusesWhatIsNoFileOfThisKind) {
  EXPECT_THAT(parse_msccl("").status().text(), HasSubstr("byte 0"));
  EXPECT_THAT(parse_msccl("<topology/>").status().text(), HasSubstr("it has no <algo>"));
  EXPECT_THAT(parse_msccl(R"(<algo coll="allreduce"/>)").status().text(), HasSubstr("<algo> has no ngpus"));
  const auto absent = read_msccl("/nowhere/at.xml");
  ASSERT_FALSE(absent.ok());
  EXPECT_THAT(absent.status().text(), HasSubstr("/nowhere/at.xml is refused: it cannot be read: No such file"));
  EXPECT_THAT(read_msccl("/tmp").status().text(), HasSubstr("/tmp is refused: it cannot be read: it is a folder"));
  EXPECT_THAT(read_msccl("/dev/zero").status().text(), HasSubstr("it is a device"));
}

TEST(Msccl, DigestsTellFilesApart) {
  const std::string text = text_of_file(own_msccl("alltoall_direct_3.xml"));
  const auto one = parse_msccl(text);
  const auto other = parse_msccl(replaced(text, "maxBytes=\"0\"", "maxBytes=\"99\""));
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->digest, parse_msccl(text)->digest);
  EXPECT_NE(one->digest, other->digest);
}

}  // namespace
}  // namespace tutti::testing
