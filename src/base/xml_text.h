// What an XML parser that is quick and lenient (pugixml) lets pass.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tutti {

/// Why a text is no well-formed XML, or more than files of this kind need.
struct XmlFault {
  std::size_t offset = 0;  ///< bytes from the text's beginning
  const char* why = "";    ///< a noun; static
};

/// The first fault of a text that pugixml has read without one: entities that XML does not know, characters that it does
/// not have, attributes given twice, text or elements beside the root, document types with declarations of their own.
/// UTF-8.
/// Extensible Markup Language 1.0, fifth edition, sections 2 and 4; references to control characters are taken as in 1.1,
/// since devices' names may hold some. Pure, O(n log n).
std::optional<XmlFault> xml_fault(std::string_view text);

}  // namespace tutti
