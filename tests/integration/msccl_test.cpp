// MSCCL algorithm files through the API: the host executor runs them, with ranks as threads.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/schedule/msccl_xml.h"
#include "src/tables/element_types.h"
#include "src/tables/operators.h"
#include "tests/support/msccl_files.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace tutti::testing {
namespace {

using test::last_error;
using ::testing::HasSubstr;

/// What rank `rank` has at element `i` of its input: small, so that sums are exact in every type.
int number(int rank, std::uint64_t i) { return static_cast<int>((i * 7 + static_cast<std::uint64_t>(rank) * 3) % 5); }

/// Ranks as threads that use one file for whatever it is for.
class FileRanks {
 public:
  FileRanks(const MscclAlgorithm& file, const std::string& path, const char* transports,
            std::uint64_t timeout_ns = 120'000'000'000)
      : comms_(count(file)) {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.msccl = path.c_str();
    config.transports = transports;
    config.operation_timeout_ns = timeout_ns;
    EXPECT_EQ(tutti_comm_create_all(comms_.data(), file.ranks, &config), TUTTI_SUCCESS) << last_error();
  }
  ~FileRanks() {
    for (tutti_comm* comm : comms_) tutti_comm_destroy(comm);
  }
  FileRanks(const FileRanks&) = delete;
  FileRanks& operator=(const FileRanks&) = delete;

  tutti_comm* operator[](int rank) const { return comms_[static_cast<std::size_t>(rank)]; }

  void run(const std::function<void(int, tutti_comm*)>& body) const {
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < comms_.size(); ++r) threads.emplace_back([&, r] { body(static_cast<int>(r), comms_[r]); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  static std::size_t count(const MscclAlgorithm& file) { return static_cast<std::size_t>(file.ranks); }
  std::vector<tutti_comm*> comms_;
};

tutti_status call(const Problem& p, const void* send, void* recv, tutti_comm* comm, const tutti_call* options) {
  return call_verb(p.collective, {send, recv, p.count, p.type, p.op, p.root, comm, {}, options});
}

/// What element `i` of output block `block` of a rank has to be.
int wanted(const Problem& p, int rank, std::uint64_t block, std::uint64_t i) {
  const auto element = [&](int from, std::uint64_t of) { return number(from, of * p.count + i); };
  const auto own = static_cast<std::uint64_t>(rank);
  switch (p.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::reduce_scatter: {
      int sum = 0;
      for (int r = 0; r < p.ranks; ++r) sum += element(r, p.collective == Collective::reduce_scatter ? own : 0);
      return sum;
    }
    case Collective::broadcast:
      return element(p.root, 0);
    case Collective::scatter:
      return element(p.root, own);
    case Collective::all_to_all:
      return element(static_cast<int>(block), own);
    default:
      return element(static_cast<int>(block), 0);
  }
}

/// One rank's memory in one call: input and output, one within the other where it is called in place.
template <typename T>
struct Memory {
  std::vector<T> input, output;
  T* send = nullptr;
  T* recv = nullptr;

  Memory(const Problem& p, int rank, bool in_place)
      : input(blocks_of(p, Buffer::input, rank) * p.count), output(blocks_of(p, Buffer::output, rank) * p.count, T(99)) {
    for (std::uint64_t i = 0; i < input.size(); ++i) input[i] = static_cast<T>(number(rank, i));
    send = input.data();
    recv = output.data();
    const Alias alias = in_place_alias(p, rank);
    if (!in_place || !alias.any) return;
    if (output.size() >= input.size()) {
      send = recv + alias.output_block * p.count;
      std::copy(input.begin(), input.end(), send);
    } else {
      recv = send + alias.input_block * p.count;
    }
  }
};

/// Empty, or what is wrong with the call on this rank.
template <typename T>
std::string run_one(const Problem& p, int rank, bool in_place, tutti_comm* comm, const tutti_call* options) {
  Memory<T> memory(p, rank, in_place);
  const std::vector<T> given = memory.input;
  if (call(p, memory.send, memory.recv, comm, options) != TUTTI_SUCCESS) return last_error();
  const std::uint64_t blocks = blocks_of(p, Buffer::output, rank);
  for (std::uint64_t b = 0; b < blocks; ++b) {
    for (std::uint64_t i = 0; i < p.count; ++i) {
      const T want = static_cast<T>(wanted(p, rank, b, i));
      const T got = memory.recv[b * p.count + i];
      if (got == want) continue;
      return "block " + std::to_string(b) + ", element " + std::to_string(i) + " is " + std::to_string(got) +
             ", and should be " + std::to_string(want);
    }
  }
  if (!in_place && memory.input != given) return "the input was written";
  return {};
}

template <typename T>
void expect_right(const MscclAlgorithm& file, const FileRanks& ranks, tutti_type type, std::uint64_t count, bool in_place) {
  Problem problem = file.problem(count);
  problem.type = type;
  tutti_call options = TUTTI_CALL_INIT;
  options.algorithm = file.name.c_str();  // whatever its bytes are
  ranks.run([&](int rank, tutti_comm* comm) {
    const std::string wrong = run_one<T>(problem, rank, in_place, comm, &options);
    EXPECT_EQ(wrong, "") << file.name << ", rank " << rank << ", " << count << " elements of type " << type
                         << (in_place ? ", in place" : "");
    tutti_comm_choice choice = {sizeof choice, nullptr, nullptr, nullptr};
    EXPECT_EQ(tutti_comm_last_choice(comm, &choice), TUTTI_SUCCESS);
    EXPECT_STREQ(choice.algorithm, file.name.c_str());
  });
}

/// Elements of a block that take more than one window, the last one short; 0 where that is too much for every day.
std::uint64_t beyond_a_window(const MscclAlgorithm& file, tutti_type type) {
  Problem problem = file.problem(1);
  problem.type = type;
  const Plan plan = file.plan(problem, 256 * 1024);
  const std::uint64_t count = plan.window + plan.window / 3 + 5;
  return count <= 4'000'000 ? count : 0;
}

void expect_all_right(const std::string& path, const char* transports) {
  const auto file = read_msccl(path);
  ASSERT_TRUE(file.ok()) << file.status().text();
  const FileRanks ranks(*file, path, transports);
  for (const bool in_place : {false, true}) {
    for (const std::uint64_t count : {0, 1, 7, 130, 1000, 4097}) {
      expect_right<std::int32_t>(*file, ranks, TUTTI_INT32, count, in_place);
    }
    expect_right<float>(*file, ranks, TUTTI_FLOAT32, 9973, in_place);
    expect_right<std::uint8_t>(*file, ranks, TUTTI_UINT8, 20011, in_place);
    expect_right<double>(*file, ranks, TUTTI_FLOAT64, 1201, in_place);
    const std::uint64_t large = beyond_a_window(*file, TUTTI_UINT8);
    if (large != 0) expect_right<std::uint8_t>(*file, ranks, TUTTI_UINT8, large, in_place);
  }
}

TEST(MscclFiles, OfOursGiveRightResultsOverSharedMemory) {
  ASSERT_GE(own_msccl_files().size(), 4u);
  for (const std::string& path : own_msccl_files()) expect_all_right(path, "shm");
}

TEST(MscclFiles, OfOursGiveRightResultsOverTcp) {
  for (const std::string& path : own_msccl_files()) expect_all_right(path, "tcp");
}

TEST(MscclFiles, OfMicrosoftsGiveRightResults) {
  if (shared_msccl_files().empty()) GTEST_SKIP() << "there is no " << shared_msccl("");
  for (const std::string& path : shared_msccl_files()) expect_all_right(path, "shm");
}

/// 384 chunks of 256 KiB a window on 16 ranks: gigabytes, so not for every day.
TEST(LargeMscclFiles, GiveRightResultsBeyondAWindow) {
  const std::string path = shared_msccl("all-reduce-ring-simple.xml");
  const auto file = read_msccl(path);
  if (!file.ok()) GTEST_SKIP() << file.status().text();
  const FileRanks ranks(*file, path, "shm");
  Problem problem = file->problem(1);
  problem.type = TUTTI_UINT8;
  const std::uint64_t count = file->plan(problem, 256 * 1024).window + 100'003;
  expect_right<std::uint8_t>(*file, ranks, TUTTI_UINT8, count, true);
}

std::string choice_of(tutti_comm* comm) {
  tutti_comm_choice choice = {sizeof choice, nullptr, nullptr, nullptr};
  EXPECT_EQ(tutti_comm_last_choice(comm, &choice), TUTTI_SUCCESS);
  return choice.algorithm;
}

TEST(MscclFiles, CountForTheBytesThatTheyAreMeantForUnlessAnAlgorithmIsNamed) {
  const test::TemporaryFolder folder;
  std::string text = text_of_file(own_msccl("allreduce_ring_4x2.xml"));
  const std::string any = R"(minBytes="0" maxBytes="0")";
  text.replace(text.find(any), any.size(), R"(minBytes="64" maxBytes="4096")");
  std::ofstream(folder.file("ring.xml")) << text;
  const std::string list = own_msccl("broadcast_chain_3.xml") + ", " + folder.file("ring.xml");
  const auto used_for = [&](const char* algorithm, std::size_t count, const char* wish) {
    std::array<tutti_comm*, 4> comms{};
    tutti_config config = TUTTI_CONFIG_INIT;
    config.msccl = list.c_str();
    config.algorithm = algorithm;
    EXPECT_EQ(tutti_comm_create_all(comms.data(), 4, &config), TUTTI_SUCCESS) << last_error();
    std::vector<std::thread> threads;
    for (tutti_comm* comm : comms) {
      threads.emplace_back([&, comm] {
        tutti_call options = TUTTI_CALL_INIT;
        options.algorithm = wish;
        std::vector<float> data(count, 1.0f);
        EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, &options),
                  TUTTI_SUCCESS)
            << last_error();
        EXPECT_EQ(data[count - 1], 4.0f);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const std::string used = choice_of(comms[0]);
    for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
    return used;
  };
  EXPECT_EQ(used_for(nullptr, 15, nullptr).find("msccl:"), std::string::npos);
  EXPECT_EQ(used_for(nullptr, 16, nullptr), "msccl:ring_4x2");
  EXPECT_EQ(used_for(nullptr, 1024, nullptr), "msccl:ring_4x2");
  EXPECT_EQ(used_for(nullptr, 1025, nullptr).find("msccl:"), std::string::npos);
  EXPECT_EQ(used_for(nullptr, 1025, "msccl:ring_4x2"), "msccl:ring_4x2");
  EXPECT_EQ(used_for("tree", 100, nullptr), "tree");
  EXPECT_EQ(used_for("broadcast:chain", 100, nullptr), "msccl:ring_4x2");
  EXPECT_EQ(used_for(nullptr, 100, "flat"), "flat");
}

TEST(MscclFiles, ThatAreWrongOrDifferAreRefusedAtCreation) {
  const auto create = [](const std::string& first, const std::string& second) {
    tutti_unique_id id;
    EXPECT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
    std::array<std::string, 2> words;
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        tutti_config config = TUTTI_CONFIG_INIT;
        config.msccl = r == 0 ? first.c_str() : second.c_str();
        tutti_comm* comm = nullptr;
        if (tutti_comm_create(&comm, 2, &id, r, &config) != TUTTI_SUCCESS)
          words[static_cast<std::size_t>(r)] = last_error();
        tutti_comm_destroy(comm);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return words;
  };
  const std::string ring = own_msccl("allreduce_ring_4x2.xml");
  const std::string direct = own_msccl("alltoall_direct_3.xml");
  for (const std::string& words : create(ring, ring)) EXPECT_EQ(words, "");
  for (const std::string& words : create(ring, direct)) EXPECT_THAT(words, HasSubstr("TUTTI_MSCCL"));
  const test::TemporaryFolder folder;
  std::string text = text_of_file(ring);
  text.replace(text.find("rrs"), 3, "xxx");
  std::ofstream(folder.file("bad.xml")) << text;
  for (const std::string& words : create(folder.file("bad.xml"), ring)) {
    EXPECT_THAT(words, HasSubstr("bad.xml is refused: rank 0, thread block 0, step 1 is of the type \"xxx\""));
    EXPECT_THAT(words, HasSubstr("TUTTI_MSCCL: "));
  }
}

/// Elements of 1 and 2, which every operator folds exactly in every type, in whatever order, on up to 4 ranks.
std::vector<std::byte> exact_elements(tutti_type type, std::uint64_t count, int rank) {
  const ElementTypeInfo info = element_type_info(type);
  const std::size_t size = element_bytes(type);
  const std::size_t part = info.kind == ElementKind::complex ? size / 2 : size;
  const auto bits_of_float = [&](bool two) -> std::uint64_t {
    if (part == 8) return two ? 0x4000000000000000u : 0x3ff0000000000000u;
    if (part == 4) return two ? 0x40000000u : 0x3f800000u;
    if (type == TUTTI_BFLOAT16) return two ? 0x4000u : 0x3f80u;
    if (type == TUTTI_FLOAT16) return two ? 0x4000u : 0x3c00u;
    return type == TUTTI_FLOAT8_E4M3 ? (two ? 0x40u : 0x38u) : (two ? 0x40u : 0x3cu);
  };
  const bool is_float = info.kind == ElementKind::floating || info.kind == ElementKind::complex;
  std::vector<std::byte> bytes(count * size);
  for (std::uint64_t p = 0; p * part < bytes.size(); ++p) {
    const bool two = number(rank, p) % 2 == 0;
    const std::uint64_t bits = is_float ? bits_of_float(two) : info.kind == ElementKind::boolean ? two : two ? 2 : 1;
    std::memcpy(bytes.data() + p * part, &bits, std::min<std::size_t>(part, sizeof bits));
  }
  return bytes;
}

/// What all ranks have after a call of `problem`; empty where one failed. named: by which algorithm.
std::vector<std::vector<std::byte>> results(const Problem& problem, const std::function<tutti_comm*(int)>& comm_of,
                                            const char* named) {
  std::vector<std::vector<std::byte>> out(static_cast<std::size_t>(problem.ranks));
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int r = 0; r < problem.ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto send = exact_elements(problem.type, blocks_of(problem, Buffer::input, r) * problem.count, r);
      std::vector<std::byte>& recv = out[static_cast<std::size_t>(r)];
      recv.resize(blocks_of(problem, Buffer::output, r) * problem.count * element_bytes(problem.type));
      tutti_call options = TUTTI_CALL_INIT;
      options.algorithm = named;
      if (call(problem, send.data(), recv.data(), comm_of(r), &options) == TUTTI_SUCCESS) return;
      ++failed;
      ADD_FAILURE() << last_error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failed == 0 ? out : std::vector<std::vector<std::byte>>();
}

TEST(MscclFiles, ServeEveryTypeAndOperatorOfTheirCollective) {
  int calls = 0;
  for (const std::string& path : own_msccl_files()) {
    const auto file = read_msccl(path);
    ASSERT_TRUE(file.ok()) << file.status().text();
    const FileRanks with(*file, path, "shm");
    const test::Ranks without(file->ranks, "shm");
    std::vector<std::pair<tutti_type, tutti_op>> kinds;
    for (const ElementTypeInfo& type : element_types) {
      for (const OperatorInfo& op : operators) {
        const bool counts = reduces(file->collective) ? applies_to(op.op, type.type) : op.op == TUTTI_SUM;
        if (counts) kinds.emplace_back(type.type, op.op);
      }
    }
    for (const int bytes : {3, 24, 1000}) {
      if (!reduces(file->collective)) kinds.emplace_back(static_cast<tutti_type>(TUTTI_OPAQUE + bytes), TUTTI_SUM);
    }
    for (const auto& [type, op] : kinds) {
      Problem problem = file->problem(37);
      problem.type = type;
      problem.op = op;
      const auto got = results(problem, [&](int r) { return with[r]; }, file->name.c_str());
      EXPECT_EQ(choice_of(with[0]), file->name);
      ASSERT_FALSE(got.empty());
      EXPECT_EQ(got, results(
                         problem, [&](int r) { return without[r]; }, nullptr))
          << file->name << ", type " << type << ", operator " << op;
      ++calls;
    }
  }
  EXPECT_GT(calls, 500);
}

/// The later of two strings of bytes, one for each element: it commutes with nothing.
void take_upper(void*, const void*, void*, std::uint64_t) {}
void add_numbers(void*, const void* in, void* inout, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) static_cast<std::int64_t*>(inout)[i] += static_cast<const std::int64_t*>(in)[i];
}
/// Of elements of 128 numbers.
void add_kilobytes(void* ctx, const void* in, void* inout, std::uint64_t count) {
  add_numbers(ctx, in, inout, 128 * count);
}

// What a file does not promise goes by another algorithm, and is refused where the call names the file.
TEST(MscclFiles, LeaveToOthersWhatTheyDoNotPromise) {
  const std::string ring = own_msccl("allreduce_ring_4x2.xml");
  const auto file = read_msccl(ring);
  ASSERT_TRUE(file.ok()) << file.status().text();
  const FileRanks ranks(*file, ring, "shm");
  ranks.run([&](int rank, tutti_comm* comm) {
    tutti_op first = TUTTI_OP_LIMIT, sum = TUTTI_OP_LIMIT, scaled = TUTTI_OP_LIMIT;
    const double two = 2;
    ASSERT_EQ(tutti_op_create_user(&first, take_upper, nullptr, 0, 8, comm), TUTTI_SUCCESS);
    ASSERT_EQ(tutti_op_create_user(&sum, add_numbers, nullptr, 1, 8, comm), TUTTI_SUCCESS);
    ASSERT_EQ(tutti_op_create_pre_mul_sum(&scaled, &two, TUTTI_FLOAT64, TUTTI_MEMORY_HOST, comm), TUTTI_SUCCESS);
    tutti_call plain = TUTTI_CALL_INIT, reproducible = plain, canonical = plain, accumulate = plain;
    reproducible.reproducible = 1;
    canonical.canonical = 8;
    accumulate.accumulate = TUTTI_FLOAT32;
    struct {
      tutti_type type;
      tutti_op op;
      tutti_call call;
      bool by_file;
    } cases[] = {{TUTTI_INT64, sum, plain, true},
                 {TUTTI_FLOAT64, scaled, plain, true},
                 {TUTTI_INT64, TUTTI_SUM, reproducible, true},  // integers have one sum
                 {TUTTI_FLOAT32, TUTTI_MAX, reproducible, true},
                 {TUTTI_INT64, first, plain, false},
                 {TUTTI_FLOAT64, TUTTI_SUM, reproducible, false},
                 {TUTTI_INT64, TUTTI_SUM, canonical, false},
                 {TUTTI_BFLOAT16, TUTTI_SUM, accumulate, false}};
    for (auto& each : cases) {
      SCOPED_TRACE(static_cast<int>(&each - cases));
      std::vector<std::int64_t> data(32, 0);
      ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), 16, each.type, each.op, comm, {}, &each.call), TUTTI_SUCCESS)
          << last_error();
      EXPECT_EQ(choice_of(comm) == file->name, each.by_file) << choice_of(comm);
      each.call.algorithm = file->name.c_str();
      const tutti_status status = tutti_all_reduce(data.data(), data.data(), 16, each.type, each.op, comm, {}, &each.call);
      EXPECT_EQ(status, each.by_file ? TUTTI_SUCCESS : TUTTI_INVALID_ARGUMENT) << last_error();
      if (each.by_file) continue;
      EXPECT_THAT(last_error(), HasSubstr("a file that folds in an order of its own | Leave the algorithm unset."));
    }
    // What a group would take does not depend on who may serve it.
    tutti_call named = plain;
    named.algorithm = file->name.c_str();
    std::vector<float> data(16, static_cast<float>(rank));
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), 16, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, &named), TUTTI_SUCCESS);
    std::uint64_t ns = 0;
    EXPECT_EQ(tutti_group_estimate(&ns), TUTTI_SUCCESS) << last_error();
    EXPECT_GT(ns, 0u);
  });
}

TEST(MscclFiles, LeaveToOthersBlocksThatDiffer) {
  const std::string gather = own_msccl("allgather_ring_3.xml");
  const auto of_gather = read_msccl(gather);
  ASSERT_TRUE(of_gather.ok()) << of_gather.status().text();
  const FileRanks three(*of_gather, gather, "shm");
  three.run([&](int rank, tutti_comm* comm) {
    std::vector<int> own(static_cast<std::size_t>(rank), rank), all(3);
    const tutti_block blocks[] = {{all.data(), 0}, {all.data(), 1}, {all.data() + 1, 2}};
    tutti_call options = TUTTI_CALL_INIT;
    ASSERT_EQ(tutti_all_gather_v(own.data(), own.size(), blocks, TUTTI_INT32, comm, {}, &options), TUTTI_SUCCESS)
        << last_error();
    EXPECT_EQ(choice_of(comm).find("msccl:"), std::string::npos);
    EXPECT_EQ(all, (std::vector<int>{1, 2, 2}));
    options.algorithm = of_gather->name.c_str();
    EXPECT_EQ(tutti_all_gather_v(own.data(), own.size(), blocks, TUTTI_INT32, comm, {}, &options), TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("all_gather_v cannot be done by \"" + of_gather->name +
                                        "\", a file whose chunks are those of equal blocks | Leave the algorithm unset."));
  });
}

// 300 chunks in one step: the reader cuts it, so that the longest elements that operators take fit a slot.
TEST(MscclFiles, ServeTheLongestElements) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("wide.xml");
  const auto step = [](int number, const char* type, int first, int count) {
    return fmt::format(R"(<step s="{0}" type="{1}" srcbuf="i" srcoff="{2}" dstbuf="o" dstoff="{2}" cnt="{3}" depid="-1" )"
                       R"(deps="-1" hasdep="0"/>)",
                       number, type, first, count);
  };
  const auto gpu = [&](int id, int send, int recv, const char* type) {
    return fmt::format(R"(<gpu id="{}" i_chunks="301" o_chunks="301" s_chunks="0"><tb id="0" send="{}" recv="{}" chan="0">)"
                       "{}{}</tb></gpu>",
                       id, send, recv, step(0, type, 0, 300), step(1, type, 300, 1));
  };
  std::ofstream(path) << R"(<algo name="wide" proto="Simple" nchannels="1" nchunksperloop="301" ngpus="2" coll="reduce" )"
                         R"(inplace="0" outofplace="1" root="0">)"
                      << gpu(0, -1, 1, "rrc") << gpu(1, 0, -1, "s") << "</algo>";
  const auto file = read_msccl(path);
  ASSERT_TRUE(file.ok()) << file.status().text();
  const FileRanks ranks(*file, path, "shm", 20'000'000'000);
  ranks.run([&](int rank, tutti_comm* comm) {
    tutti_op sum = TUTTI_OP_LIMIT;
    ASSERT_EQ(tutti_op_create_user(&sum, add_kilobytes, nullptr, 1, 1024, comm), TUTTI_SUCCESS) << last_error();
    const auto type = static_cast<tutti_type>(TUTTI_OPAQUE + 1024);
    std::vector<std::int64_t> send(128 * 400, 3 + rank), recv(128 * 400);
    ASSERT_EQ(tutti_reduce(send.data(), recv.data(), 400, type, sum, 0, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(choice_of(comm), "msccl:wide");
    if (rank == 0) {
      EXPECT_EQ(recv, std::vector<std::int64_t>(128 * 400, 7));
    }
  });
}

/// A thread block's steps in MSCCL's words: "s i0 o0" sends what is in input chunk 0, "r i0 o1 2.11" receives into output
/// chunk 1 once step 11 of thread block 2 is done.
std::string thread_block(int id, int send, int recv, int channel, const std::vector<std::string>& steps) {
  std::string text = fmt::format(R"(<tb id="{}" send="{}" recv="{}" chan="{}">)", id, send, recv, channel);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    std::istringstream in(steps[s]);
    std::string type, from, to, after = "-1.-1";
    in >> type >> from >> to >> after;
    const std::string on = after.substr(0, after.find('.')), step = after.substr(after.find('.') + 1);
    text += fmt::format(R"(<step s="{}" type="{}" srcbuf="{}" srcoff="{}" dstbuf="{}" dstoff="{}" cnt="1" depid="{}")"
                        R"( deps="{}" hasdep="0"/>)",
                        s, type, from[0], from.substr(1), to[0], to.substr(1), on, step);
  }
  return text + "</tb>";
}

/// A broadcast of two chunks among 3 ranks, in which rank 1 passes chunk 0 on, gets it once more into the same place, and
/// passes on chunk 1 behind that; rank 2 takes chunk 0 late, after much to and fro with the root, but before chunk 1.
std::string overwriting_broadcast() {
  std::vector<std::string> to, fro;
  for (int i = 0; i < 6; ++i) {
    to.insert(to.end(), {"s i0 s0", "r s0 s0"});
    fro.insert(fro.end(), {"r s0 s0", "s s0 s0"});
  }
  const auto gpu = [](int id, const std::string& blocks) {
    return fmt::format(R"(<gpu id="{}" i_chunks="2" o_chunks="2" s_chunks="1">{}</gpu>)", id, blocks);
  };
  return R"(<algo name="overwriting" proto="Simple" nchannels="4" nchunksperloop="2" ngpus="3" coll="broadcast" )"
         R"(inplace="1" outofplace="0" root="0">)" +
         gpu(0, thread_block(0, 1, -1, 0, {"s i0 o0"}) + thread_block(1, 1, -1, 1, {"s i0 o0", "s i1 o1"}) +
                    thread_block(2, 2, 2, 2, to)) +
         gpu(1, thread_block(0, 2, 0, 0, {"r i0 o0", "s o0 o0"}) +
                    thread_block(1, 2, 0, 1, {"r i0 o0 0.1", "r i0 o1", "s o1 o1"})) +
         gpu(2, thread_block(0, -1, 1, 0, {"r i0 o0 2.11"}) + thread_block(1, -1, 1, 1, {"r i0 o1"}) +
                    thread_block(2, 0, 0, 2, fro)) +
         "</algo>";
}

// Ranks whose memory is registered offer it, and hold what they have offered until it has been taken; others run their
// steps in single file, in whose order nothing may stand that waits for more than that.
TEST(Msccl, RanksWithAndWithoutRegisteredMemoryNeverWaitForEachOtherInACircle) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("overwriting.xml");
  std::ofstream(path) << overwriting_broadcast();
  const auto file = read_msccl(path);
  ASSERT_TRUE(file.ok()) << file.status().text();
  constexpr std::size_t bytes = 65536;
  for (const int registered : {0b000, 0b010, 0b011, 0b110, 0b111}) {
    SCOPED_TRACE(registered);
    const FileRanks ranks(*file, path, "shm", 20'000'000'000);
    ranks.run([registered](int rank, tutti_comm* comm) {
      const bool alloc = ((registered >> rank) & 1) != 0;
      void* memory = nullptr;
      std::vector<unsigned char> own(alloc ? 0 : 2 * bytes);
      if (alloc) {
        ASSERT_EQ(tutti_memory_alloc(&memory, 2 * bytes), TUTTI_SUCCESS) << last_error();
      }
      unsigned char* const send = alloc ? static_cast<unsigned char*>(memory) : own.data();
      unsigned char* const recv = send + bytes;
      tutti_call options = TUTTI_CALL_INIT;
      options.algorithm = "msccl:overwriting";
      for (int call = 0; call < 20; ++call) {
        std::fill_n(send, bytes, static_cast<unsigned char>(call + 1));
        ASSERT_EQ(tutti_broadcast(send, recv, bytes, TUTTI_UINT8, 0, comm, {}, &options), TUTTI_SUCCESS) << last_error();
        ASSERT_EQ(std::count(recv, recv + bytes, static_cast<unsigned char>(call + 1)), std::ptrdiff_t{bytes});
      }
      EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS);  // NULL where there is none
    });
  }
}

}  // namespace
}  // namespace tutti::testing
