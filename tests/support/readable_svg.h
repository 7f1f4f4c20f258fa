// Whether a person can read a drawing.
#pragma once

#include <gtest/gtest.h>

#include <pugixml.hpp>
#include <string>

#include "topology/svg.h"

namespace tutti::testing {

inline bool overlap(const SvgText& a, const SvgText& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/// The document is XML, has every text of the layout, and no two of them overlap or leave the page.
inline void expect_readable(const SvgDrawing& drawing, const std::string& what) {
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(drawing.svg.c_str(), pugi::parse_default | pugi::parse_ws_pcdata)) << what;
  EXPECT_EQ(document.select_nodes("//text").size(), drawing.texts.size()) << what;
  for (std::size_t i = 0; i < drawing.texts.size(); ++i) {
    const SvgText& text = drawing.texts[i];
    EXPECT_TRUE(text.x >= 0 && text.y >= 0 && text.x + text.width <= drawing.width &&
                text.y + text.height <= drawing.height)
        << what << ": " << text.text << " leaves the page";
    for (std::size_t j = i + 1; j < drawing.texts.size(); ++j) {
      ASSERT_FALSE(overlap(text, drawing.texts[j])) << what << ": " << text.text << " and " << drawing.texts[j].text;
    }
  }
}

}  // namespace tutti::testing
