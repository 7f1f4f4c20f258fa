// What an XML parser that is quick and lenient (pugixml) lets pass.
#pragma once

#include <string>
#include <string_view>

namespace tutti {

/// The first fault of a text that pugixml has read without one: entities that XML does not know, characters that it does
/// not have, attributes given twice, text or elements beside the root, document types with declarations of their own.
/// UTF-8.
/// Extensible Markup Language 1.0, fifth edition, sections 2 and 4; references to control characters are taken as in 1.1,
/// since devices' names may hold some. As "byte 7: it has a second root element", empty where there is none. Pure,
/// O(n log n).
std::string xml_fault(std::string_view text);

}  // namespace tutti
