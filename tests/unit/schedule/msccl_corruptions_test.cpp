// Hand-made corruptions of MSCCL files: each is refused, and the sentence names rank, thread block and step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pugixml.hpp>
#include <set>

#include "src/schedule/msccl_xml.h"
#include "tests/support/msccl_files.h"

namespace tutti::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// An edit of one step, or of its thread block where `step` is -1: an attribute gets another value. Instead of an
/// attribute, "drop" takes the step out and "twice" repeats it, both with those behind it renumbered, and "down" swaps it
/// with the next.
struct Edit {
  int rank;
  int block;
  int step;
  const char* attribute;
  const char* value;
};

/// A corruption by its name. `where`: how its sentence must begin; `what`: what it must say.
struct Corruption {
  const char* name;
  const char* file;
  std::vector<Edit> edits;
  const char* where;
  const char* what;
};

pugi::xml_node child(const pugi::xml_node& parent, const char* element, const char* id, int value) {
  return parent.find_child_by_attribute(element, id, std::to_string(value).c_str());
}

void renumber(pugi::xml_node block) {
  int next = 0;
  for (pugi::xml_node step : block.children("step")) step.attribute("s").set_value(next++);
}

/// Whether there was something to edit.
bool apply(pugi::xml_document& document, const Edit& edit) {
  pugi::xml_node block = child(child(document.child("algo"), "gpu", "id", edit.rank), "tb", "id", edit.block);
  pugi::xml_node step = edit.step < 0 ? block : child(block, "step", "s", edit.step);
  if (!step) return false;
  const std::string what = edit.attribute;
  if (what == "drop") {
    block.remove_child(step);
  } else if (what == "twice") {
    block.insert_copy_after(step, step);
  } else if (what == "down") {
    block.insert_move_after(step, step.next_sibling("step"));
  } else {
    if (!step.attribute(edit.attribute)) return false;
    if (std::string(edit.value).empty()) return step.remove_attribute(edit.attribute);
    return step.attribute(edit.attribute).set_value(edit.value);
  }
  renumber(block);
  return true;
}

void expect_refused(const Corruption& corruption, const std::string& path) {
  pugi::xml_document document;
  ASSERT_TRUE(document.load_file(path.c_str())) << path;
  for (const Edit& edit : corruption.edits) {
    ASSERT_TRUE(apply(document, edit)) << corruption.name << ": there is nothing to edit in " << path;
  }
  std::ostringstream text;
  document.save(text);
  const auto file = parse_msccl(text.str());
  ASSERT_FALSE(file.ok()) << corruption.name << " was not noticed";
  EXPECT_THAT(file.status().text(), ContainsRegex("^rank [0-9]+, thread block [0-9]+, step [0-9]+ ")) << corruption.name;
  EXPECT_THAT(file.status().text(), StartsWith(corruption.where)) << corruption.name;
  EXPECT_THAT(file.status().text(), HasSubstr(corruption.what)) << corruption.name;
}

constexpr const char* ring = "allreduce_ring_4x2.xml";
constexpr const char* pairs = "allreduce_allpairs_4.xml";
constexpr const char* doubling = "allreduce_doubling_4.xml";
constexpr const char* gather_ring = "allgather_ring_3.xml";
constexpr const char* direct = "alltoall_direct_3.xml";
constexpr const char* two_step = "alltoall_two_step_4.xml";
constexpr const char* scatter_ring = "reducescatter_ring_3.xml";

const Corruption corruptions[] = {
    // Numbers and words
    {"a type of step that does not exist", ring, {{1, 0, 2, "type", "rrx"}}, "rank 1, thread block 0, step 2 ", "\"rrx\""},
    {"a buffer that does not exist", ring, {{1, 0, 2, "srcbuf", "x"}}, "rank 1, thread block 0, step 2 ", "srcbuf=\"x\""},
    {"an offset that is no number", ring, {{2, 1, 0, "srcoff", "4k"}}, "rank 2, thread block 1, step 0 ", "srcoff=\"4k\""},
    {"an offset beyond the buffer",
     ring,
     {{2, 1, 0, "srcoff", "8"}},
     "rank 2, thread block 1, step 0 ",
     "touches chunk 8 of the input, which has 8"},
    {"a negative offset", ring, {{2, 1, 6, "dstoff", "-1"}}, "rank 2, thread block 1, step 6 ", "dstoff=\"-1\""},
    {"an offset that is missing", pairs, {{2, 1, 1, "dstoff", ""}}, "rank 2, thread block 1, step 1 ", "has no dstoff"},
    {"a count of none", pairs, {{0, 0, 0, "cnt", "0"}}, "rank 0, thread block 0, step 0 ", "cnt=\"0\""},
    {"a count that leaves the buffer",
     pairs,
     {{0, 2, 0, "cnt", "3"}},
     "rank 0, thread block 2, step 0 ",
     "touches chunk 8"},
    {"a step with another's number", ring, {{3, 0, 4, "s", "5"}}, "rank 3, thread block 0, step 4 ", "is numbered 5"},
    {"a send by whom nobody listens to",
     ring,
     {{3, 1, -1, "send", "-1"}},
     "rank 3, thread block 1, step 0 ",
     "nobody to send to"},
    {"a receive from nobody",
     gather_ring,
     {{1, 1, -1, "recv", "-1"}},
     "rank 1, thread block 1, step 1 ",
     "nobody to receive from"},
    {"a wait for a thread block that does not exist",
     pairs,
     {{1, 3, 0, "depid", "9"}},
     "rank 1, thread block 3, step 0 ",
     "step 1 of thread block 9, which does not exist"},
    {"a wait for a step that does not exist",
     pairs,
     {{1, 3, 0, "deps", "7"}},
     "rank 1, thread block 3, step 0 ",
     "step 7 of thread block 0, which does not exist"},
    {"a wait for itself",
     pairs,
     {{1, 3, 2, "depid", "3"}, {1, 3, 2, "deps", "2"}},
     "rank 1, thread block 3, step 2 ",
     "waits for itself"},
    // Messages without their other end
    {"a send that is gone",
     ring,
     {{0, 0, 0, "drop", ""}},
     "rank 1, thread block 0, step 6 ",
     "takes a message more from rank 0 on channel 0 than the 5 that are sent there"},
    {"a receive that is gone",
     ring,
     {{2, 0, 6, "drop", ""}},
     "rank 1, thread block 0, step 5 ",
     "sends a message more to rank 2 on channel 0 than the 5 that are taken there"},
    {"a send that is there twice",
     direct,
     {{0, 1, 0, "twice", ""}},
     "rank 0, thread block 1, step 1 ",
     "sends a message more to rank 1 on channel 0 than the 1 that are taken there"},
    {"a relay that only receives",
     ring,
     {{2, 1, 4, "type", "r"}},
     "rank 1, thread block 1, step 6 ",
     "takes a message more from rank 2 on channel 1 than the 5 "},
    {"a receiver that listens elsewhere",
     direct,
     {{2, 2, -1, "recv", "0"}},
     "rank 2, thread block 2, step 1 ",
     "receives from rank 0 on channel 0, as thread block 1 does already"},
    {"another channel at one end",
     ring,
     {{1, 0, -1, "chan", "1"}},
     "rank 0, thread block 0, step 0 ",
     "sends a message more to rank 1 on channel 0 than the 0 that are taken there"},
    {"two thread blocks on one link",
     direct,
     {{1, 2, -1, "send", "0"}},
     "rank 1, thread block 2, step 0 ",
     "as thread block 1 does already"},
    {"fewer chunks taken than sent",
     pairs,
     {{3, 0, 1, "cnt", "1"}},
     "rank 3, thread block 0, step 1 ",
     "takes 1 chunks from rank 0"},
    // Time
    {"a receive before the send that it answers, all around",
     ring,
     {{0, 0, 0, "down", ""}, {1, 0, 0, "down", ""}, {2, 0, 0, "down", ""}, {3, 0, 0, "down", ""}},
     "rank 0, thread block 0, step 0 ",
     "waits for ever"},
    {"a wait that is forgotten",
     pairs,
     {{1, 3, 1, "depid", "-1"}},
     "rank 1, thread block 3, step 3 ",
     "does not wait for it"},
    {"a send that does not wait for the fold",
     pairs,
     {{2, 0, 2, "depid", "-1"}},
     "rank 2, thread block 3, step 2 ",
     "does not wait for it"},
    {"a wait for too early a step",
     pairs,
     {{0, 3, 0, "deps", "0"}},
     "rank 0, thread block 3, step 2 ",
     "does not wait for it"},
    {"two that wait for each other",
     doubling,
     {{1, 0, 0, "depid", "1"}, {1, 0, 0, "deps", "0"}},
     "rank 1, thread block 0, step 0 ",
     "waits for itself"},
    // Data
    {"another chunk received than is folded",
     ring,
     {{1, 0, 1, "srcoff", "2"}},
     "rank 1, thread block 0, step 1 ",
     "folds chunk 0 of x0 with chunk 2 of x1"},
    {"a fold that is not done", ring, {{1, 0, 1, "type", "rcs"}}, "rank ", "thread block 0, step "},
    {"a share that is folded twice", pairs, {{0, 3, 3, "srcoff", "0"}}, "rank 0, thread block 3, step 2 ", "twice"},
    {"scratch that nobody wrote", pairs, {{0, 2, 1, "dstoff", "2"}}, "rank 0, thread block ", "step "},
    {"a result at another's place",
     gather_ring,
     {{0, 1, 2, "dstoff", "2"}},
     "rank 0, thread block 1, step 2 ",
     "the last to write chunk 0 of x1, and nobody writes it to output chunk 1"},
    {"a block that is sent to the wrong rank",
     direct,
     {{0, 2, 0, "srcoff", "2"}},
     "rank 2, thread block 1, step 1 ",
     "where chunk 0 of x0[2] belongs"},
    {"a copy from elsewhere",
     direct,
     {{1, 0, 0, "srcoff", "0"}},
     "rank 1, thread block 0, step 0 ",
     "leaves chunk 0 of x1[0]"},
    {"a result that stays in scratch", two_step, {{0, 1, 2, "dstbuf", "s"}}, "rank 0, thread block ", "output chunk 1"},
    {"what was gathered is sent crosswise", two_step, {{3, 2, 0, "srcoff", "1"}}, "rank ", "thread block 2, step "},
    {"a fold in a collective without one",
     direct,
     {{1, 0, 0, "type", "re"}},
     "rank 1, thread block 0, step 0 ",
     "reads output chunk 2, which nobody wrote"},
    {"a share too many",
     scatter_ring,
     {{0, 0, 0, "type", "cpy"}, {0, 0, 0, "dstoff", "1"}},
     "rank ",
     "thread block 0, step "},
    {"folds in another order on one rank", doubling, {{3, 0, 1, "type", "r"}}, "rank ", "thread block "},
};

/// Of Microsoft's files, where they are.
const Corruption shared_corruptions[] = {
    {"a ring's fold that hands on what it received",
     "allreduce_ring_4x1.xml",
     {{1, 0, 0, "type", "rcs"}},
     "rank ",
     "thread block 0, step "},
    {"a ring's message on another channel",
     "allreduce_ring_4x1.xml",
     {{0, 0, -1, "chan", "1"}},
     "rank 0, thread block 1, step 0 ",
     "as thread block 0 does already"},
    {"a ring that begins nowhere",
     "allreduce_ring_4x1.xml",
     {{2, 2, 0, "type", "rcs"}},
     "rank ",
     "takes a message more from rank 1 on channel 2 than the 1 "},
    {"a gathered block at another's place",
     "allgather_ring_4.xml",
     {{3, 0, 3, "dstoff", "1"}},
     "rank 3, thread block 0, step 3 ",
     "the last to write chunk 0 of x0, and nobody writes it to output chunk 0"},
    {"a fold of 16 ranks with one share twice",
     "all-reduce-ring-simple.xml",
     {{9, 4, 7, "srcoff", "0"}},
     "rank 9, thread block 4, step 7 ",
     "folds chunk "},
    {"a wait among many that is forgotten",
     "allreduce-allpairs-8n-ll-32tb.xml",
     {{5, 0, 2, "depid", "-1"}},
     "rank 5, thread block ",
     "does not wait for it"},
    {"a share that lands beside its place",
     "allreduce-allpairs-8n-ll-32tb.xml",
     {{1, 4, 1, "dstoff", "8"}},
     "rank 1, ",
     "thread block "},
    {"two blocks exchanged",
     "alltoall-8n-0-9kb.xml",
     {{0, 1, 0, "dstoff", "2"}, {0, 2, 0, "dstoff", "1"}},
     "rank 0, thread block ",
     "belongs"},
    {"the second half where the first belongs",
     "alltoall-8n-9kb-190kb.xml",
     {{4, 2, 0, "dstoff", "1"}},
     "rank 4, thread block ",
     "step "},
};

TEST(MscclCorruptions, AreEachRefusedWithRankThreadBlockAndStep) {
  std::set<std::string> names;
  for (const Corruption& corruption : corruptions) {
    EXPECT_TRUE(names.insert(corruption.name).second) << corruption.name;
    expect_refused(corruption, own_msccl(corruption.file));
  }
  EXPECT_GE(names.size(), 30u);
}

TEST(MscclCorruptions, OfMicrosoftsFilesToo) {
  if (shared_msccl_files().empty()) GTEST_SKIP() << "there is no " << shared_msccl("");
  for (const Corruption& corruption : shared_corruptions) expect_refused(corruption, shared_msccl(corruption.file));
}

}  // namespace
}  // namespace tutti::testing
