#include "perf/collectives.h"

#include <array>
#include <string_view>
#include <utility>

namespace tutti::perf {
namespace {

/// The verb of one collective: a function for each, so that a measured call costs no choice between them.
template <Collective kCollective>
tutti_status verb(const Arguments& a) {
  return call_verb(kCollective, {a.send, a.recv, a.count, a.type, a.op, a.root, a.comm, a.stream, a.call});
}

constexpr auto kVerbs = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
  return std::array{&verb<static_cast<Collective>(kIndex)>...};
}(std::make_index_sequence<collective_count>());

// As nccl-tests' sendrecv: around a ring, each rank to the next.
tutti_status send_recv(const Arguments& a) {
  const int next = (a.rank + 1) % a.ranks;
  const int previous = (a.rank + a.ranks - 1) % a.ranks;
  tutti_status status = tutti_group_start();
  if (status != TUTTI_SUCCESS) return status;
  status = tutti_recv(a.recv, a.count, a.type, previous, a.comm, a.stream, a.call);
  if (status == TUTTI_SUCCESS) status = tutti_send(a.send, a.count, a.type, next, a.comm, a.stream, a.call);
  const tutti_status end = tutti_group_end(nullptr);
  return status != TUTTI_SUCCESS ? status : end;
}

tutti_status all_gather_v(const Arguments& a) {
  return tutti_all_gather_v(a.send, a.lists->own, a.lists->recv.data(), a.type, a.comm, a.stream, a.call);
}

tutti_status reduce_scatter_v(const Arguments& a) {
  return tutti_reduce_scatter_v(a.lists->send.data(), a.recv, a.lists->own, a.type, a.op, a.comm, a.stream, a.call);
}

tutti_status all_to_all_v(const Arguments& a) {
  return tutti_all_to_all_v(a.lists->send.data(), a.lists->recv.data(), a.type, a.comm, a.stream, a.call);
}

tutti_status gather_v(const Arguments& a) {
  return tutti_gather_v(a.send, a.lists->own, a.lists->recv.data(), a.type, a.root, a.comm, a.stream, a.call);
}

tutti_status scatter_v(const Arguments& a) {
  return tutti_scatter_v(a.lists->send.data(), a.recv, a.lists->own, a.type, a.root, a.comm, a.stream, a.call);
}

tutti_status all_reduce_v(const Arguments& a) {
  const BlockLists& lists = *a.lists;
  return tutti_all_reduce_v(lists.send.empty() ? nullptr : lists.send.data(), lists.send.size(), lists.recv.data(),
                            lists.recv.size(), a.type, a.op, a.comm, a.stream, a.call);
}

/// The v-variant of a collective.
BenchedCollective variant(Collective of, const char* alias, tutti_status (*call)(const Arguments&)) {
  BenchedCollective made = {info_of(of), true, false, call, true};
  made.name = made.v_variant;
  made.alias = alias;
  return made;
}

std::vector<BenchedCollective> all_rows() {
  std::vector<BenchedCollective> rows;
  for (const auto& [collective, info] : tutti::collectives) {
    rows.push_back({info, info.senders != Role::nobody, false, kVerbs[static_cast<size_t>(collective)]});
    rows.back().fuses = collective == Collective::all_reduce || collective == Collective::broadcast;
  }
  rows.push_back({{"send_recv", "sendrecv", nullptr, Role::all, Role::all, BlockSource::previous}, false, true, send_recv});
  rows.push_back(variant(Collective::all_gather, nullptr, all_gather_v));
  rows.push_back(variant(Collective::reduce_scatter, nullptr, reduce_scatter_v));
  rows.push_back(variant(Collective::all_to_all, "alltoallv", all_to_all_v));
  rows.push_back(variant(Collective::gather, nullptr, gather_v));
  rows.push_back(variant(Collective::scatter, nullptr, scatter_v));
  rows.push_back({info_of(Collective::all_reduce), true, false, all_reduce_v, true, true});
  rows.back().name = "all_reduce_v";
  return rows;
}

}  // namespace

const std::vector<BenchedCollective>& collectives() {
  static const std::vector<BenchedCollective> rows = all_rows();
  return rows;
}

const BenchedCollective* find_collective(const std::string& given) {
  constexpr std::string_view kProgram = "_perf";
  std::string_view name = given;
  if (name.ends_with(kProgram)) name.remove_suffix(kProgram.size());
  for (const BenchedCollective& collective : collectives()) {
    if (name == collective.name || (collective.alias != nullptr && name == collective.alias)) return &collective;
  }
  return nullptr;
}

uint64_t count_for(const BenchedCollective& collective, uint64_t bytes, tutti_type type, int ranks) {
  if (collective.senders == Role::nobody) return 0;
  return bytes / tutti_type_size(type) / collective.largest_blocks(ranks);
}

uint64_t bytes_for(const BenchedCollective& collective, uint64_t count, tutti_type type, int ranks) {
  return count * tutti_type_size(type) * collective.largest_blocks(ranks);
}

}  // namespace tutti::perf
