#include "src/base/xml_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

TEST(XmlText, ThatIsSoundHasNoFault) {
  const std::vector<std::string> sound = {
      "<a/>",
      "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version='2'>\n</topology>\n",
      "\xef\xbb\xbf<a b=\"&amp;&lt;&gt;&quot;&apos;\"> &#65; &#x1F600; &#9; </a>",
      "<!-- a > b & c < d --><a><![CDATA[ & < ]]><b c=\"1\" d=\">\" /><b c=\"2\"/></a><!-- after -->\n",
      "<a\n  b = '\"'\n  c=\"'\"\n></a>",
  };
  for (const std::string& text : sound) {
    EXPECT_EQ(xml_fault(text), "") << text;
  }
}

TEST(XmlText, ThatIsNotIsRefusedWhereItIsWrong) {
  const std::vector<std::pair<std::string, std::size_t>> wrong = {
      {"<a b=\"&foo;\"/>", 6},
      {"<a b=\"&amp\"/>", 6},
      {"<a b=\"& \"/>", 6},
      {"<a>&#0;</a>", 3},
      {"<a>&#x99999999;</a>", 3},
      {"<a>&#xD800;</a>", 3},
      {"<a>&#;</a>", 3},
      {"<a>&#x;</a>", 3},
      {"<a>&#12a;</a>", 3},
      {"<a/>garbage", 4},
      {"words<a/>", 0},
      {"<a></a><b/>", 7},
      {"<a/><a/>", 4},
      {"<r><a b=\"1\" c='2' b=\"3\"/></r>", 3},
      {"<!DOCTYPE a [<!ENTITY b \"c\">]><a/>", 0},
  };
  for (const auto& [text, offset] : wrong) {
    EXPECT_THAT(xml_fault(text), testing::StartsWith("byte " + std::to_string(offset) + ": it has ")) << text;
  }
}

// Whatever it is given: it ends, and reads nothing beyond.
TEST(XmlText, CutAnywhereEnds) {
  const std::string whole = "<?xml v?><!DOCTYPE a><!-- c --><a b=\"&amp;\" c='d'><![CDATA[e]]>f&#65;</a>";
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const std::string cut = whole.substr(0, length);  // of its own length, so that the address sanitizer sees
    static_cast<void>(xml_fault(cut));
  }
}

}  // namespace
}  // namespace tutti
