// What the readers of XML have in common: documents that are XML, numbers that are numbers, and refusals
// that say where.
#pragma once

#include <charconv>
#include <cstddef>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace tutti::xml {

/// More than a machine could hold: what goes beyond is refused, so that no file takes memory or time without end.
inline constexpr std::size_t kMostCpus = 65536;
inline constexpr int kDeepest = 64;
inline constexpr int kMostObjects = 1'000'000;
inline constexpr int kMostNumaNodes = 1024;  // and packages; Linux's MAX_NUMNODES
/// Of all masks together: a CPU is in its core's, its caches', its NUMA node's and so on.
inline constexpr std::size_t kMostListedCpus = std::size_t{1} << 20;

/// Parses `text` into `document`. remedy: what to do about a text that is no XML.
Status load(std::string_view text, const char* remedy, pugi::xml_document& document);

/// TUTTI_INVALID_ARGUMENT at the byte where `at` begins.
Status refusal(const pugi::xml_node& at, const std::string& why, const char* remedy);

/// The same status for the file that it is about.
Status of_file(const std::string& path, const Status& status);

/// The whole of `text` as a number; false where it is none or does not fit.
template <typename T>
bool number_in(std::string_view text, T& out, int base = 10) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && stop == text.data() + text.size() && !text.empty();
}

/// Reads an attribute where there is one; false where it is malformed.
template <typename T>
bool optional_number(const pugi::xml_node& from, const char* name, T& out) {
  const pugi::xml_attribute attribute = from.attribute(name);
  return attribute.empty() || number_in(std::string_view(attribute.value()), out);
}

/// A CPU mask, "0x0000000f,,0x00000003" with hwloc or "0000000f,00000000,00000003" with the kernel and NCCL: 32 bits a
/// word, the most significant first, empty words being zero. false where it is malformed or without end.
bool parse_mask(std::string_view text, std::vector<int>& cpus);

/// Whether a text is a PCI function's address, "0000:07:00.0", in lower case and with a domain of 4 to 8 digits.
bool is_pci_address(std::string_view text);

}  // namespace tutti::xml
