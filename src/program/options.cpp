#include "src/program/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>

#include "src/tables/units.h"

namespace tutti::program {
namespace {

// Reads a value into its target; the answer is why it cannot, or empty.
using Reader = std::function<std::string(const std::string&)>;

struct Value {
  std::string name;  // as errors call it
  CLI::Option* option;
  std::string raw;
  Reader read;
  bool required;
};

std::string long_name(const std::string& names) {
  const size_t dashes = names.find("--");
  return dashes == std::string::npos ? names : names.substr(dashes, names.find(',', dashes) - dashes);
}

std::string read_integer(const std::string& text, int64_t min, int64_t max, int64_t* value) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const bool whole = error == std::errc() && rest == end;
  if (whole && number >= min && number <= max) {
    *value = number;
    return "";
  }
  if (max == INT64_MAX)
    return fmt::format("it takes a whole number from {}; for example {}", min, std::max<int64_t>(min, 1));
  return fmt::format("it takes a whole number from {} to {}", min, max);
}

std::string read_real(const std::string& text, double min, double max, double* value) {
  char* rest = nullptr;
  const double number = std::strtod(text.c_str(), &rest);
  const bool whole = !text.empty() && *rest == 0 && std::isfinite(number);
  if (whole && number >= min && number <= max) {
    *value = number;
    return "";
  }
  return fmt::format("it takes a number from {} to {}", min, max);
}

std::string read_choice(const std::string& text, const std::vector<std::string>& allowed, std::string* value) {
  if (allowed.empty() || std::find(allowed.begin(), allowed.end(), text) != allowed.end()) {
    *value = text;
    return "";
  }
  const std::string near = nearest_name(text, allowed);
  return "it takes one of " + listing(allowed) + (near.empty() ? "" : "; did you mean " + near + "?");
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view given, const std::vector<std::string>& known) {
  std::string best;
  size_t least = std::max<size_t>(2, given.size() / 3) + 1;
  for (const std::string& name : known) {
    const size_t distance = edit_distance(given, name);
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

struct Options::Body {
  Body(std::string name, const std::string& summary) : program(std::move(name)), app(summary, program) {
    app.set_help_flag();
    app.allow_extras();
    app.add_flag("-h,--help", help, "Prints this and exits");
    app.add_flag("--version", version, "Prints the version and exits");
    app.add_option("--json", json, "JSON lines instead of the table, into FILE where one is given (default: stdout)")
        ->type_name("[=FILE]");
    app.add_flag("--quiet", quiet, "Prints nothing but errors, and JSON lines where asked for");
  }

  CLI::Option* add(const std::string& names, const std::string& type, const std::string& help_text,
                   const std::string& standard, Reader read, bool required);
  std::vector<std::string> long_names() const;
  std::string extra(const std::string& argument) const;
  std::string hand_out(std::vector<std::string> arguments);
  std::string values();
  std::string refusal();
  std::string help_text();
  std::string version_text() const;

  std::string program;
  CLI::App app;
  std::deque<Value> options;        // a deque, since CLI11 keeps the addresses of `raw`
  std::string heading = "Options";  // CLI11's own for those without
  std::string examples;
  std::string notes;
  std::string json;
  bool help = false;
  bool version = false;
  bool quiet = false;
};

CLI::Option* Options::Body::add(const std::string& names, const std::string& type, const std::string& help_text,
                                const std::string& standard, Reader read, bool required) {
  options.push_back({long_name(names), nullptr, "", std::move(read), required});
  CLI::Option* option = app.add_option(names, options.back().raw, help_text);
  option->type_name(type)->take_last()->default_str(standard)->group(heading);
  options.back().option = option;
  return option;
}

std::vector<std::string> Options::Body::long_names() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string Options::Body::extra(const std::string& argument) const {
  if (argument.size() < 2 || argument[0] != '-') {
    return fmt::format("'{}' was given as one argument more than {} takes; leave it out (`{} --help` lists the arguments)",
                       argument, program, program);
  }
  const std::string name = argument.substr(0, argument.find('='));
  const std::string near = nearest_name(name, long_names());
  return fmt::format("{} is not an option of {}; {}`{} --help` lists them", name, program,
                     near.empty() ? "" : "did you mean " + near + "? ", program);
}

std::string Options::Body::values() {
  for (Value& value : options) {
    if (value.option->count() == 0) {
      if (!value.required) continue;
      const std::string near = value.read("");
      return fmt::format("{} is missing: {}", value.name, near.empty() ? "it has no default" : near);
    }
    const std::string why = value.read(value.raw);
    if (!why.empty()) return fmt::format("{} was given '{}', but {}", value.name, value.raw, why);
  }
  return "";
}

// Hands each option its raw text. The answer is what is wrong with the way they are written, or empty.
std::string Options::Body::hand_out(std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(std::move(arguments));
    return "";
  } catch (const CLI::ArgumentMismatch& mismatch) {
    // "--name: 1 required TYPE missing": every option takes one value, so that this is the only mismatch there is.
    const std::string what = mismatch.what();
    return fmt::format("{} was given without a value; add one (`{} --help` says which)", what.substr(0, what.find(':')),
                       program);
  } catch (const CLI::Error& error) {
    return fmt::format("{}; see `{} --help`", error.what(), program);
  }
}

// What is wrong with what was given, or empty. An unknown option explains more than what it leaves missing; an argument
// too many, less.
std::string Options::Body::refusal() {
  const std::vector<std::string> extras = app.remaining();
  const auto unknown =
      std::find_if(extras.begin(), extras.end(), [](const std::string& e) { return e.size() > 1 && e[0] == '-'; });
  if (unknown != extras.end()) return extra(*unknown);
  const std::string why = values();
  return why.empty() && !extras.empty() ? extra(extras.front()) : why;
}

std::string Options::Body::help_text() {
  if (!examples.empty() || !notes.empty()) app.footer("Examples:\n" + examples + notes);
  return app.help();
}

std::string Options::Body::version_text() const {
  const int library = tutti_version();
  return fmt::format("{} {}.{}.{}\n", program, library / 10000, library / 100 % 100, library % 100);
}

Options::Options(std::string program, std::string summary) : body_(std::make_unique<Body>(std::move(program), summary)) {}
Options::~Options() = default;

void Options::positional(const std::string& name, std::string* value, const std::string& help, bool required,
                         std::vector<std::string> allowed) {
  const auto read = [allowed = std::move(allowed), value](const std::string& text) {
    return read_choice(text, allowed, value);
  };
  body_->add(name, "", help, *value, read, required);
}

void Options::text(const std::string& names, std::string* value, const std::string& shown_as, const std::string& help) {
  const auto read = [value, shown_as](const std::string& text) {
    // Mostly a variable of the shell's that is not set.
    return text.empty() ? "it takes " + shown_as + "; leave it out for the default" : read_choice(text, {}, value);
  };
  body_->add(names, shown_as, help, *value, read, false);
}

void Options::choice(const std::string& names, std::string* value, std::vector<std::string> allowed,
                     const std::string& help) {
  std::string type;
  for (const std::string& name : allowed) type += (type.empty() ? "" : "|") + name;
  const auto read = [allowed = std::move(allowed), value](const std::string& text) {
    return read_choice(text, allowed, value);
  };
  body_->add(names, type, help, *value, read, false);
}

void Options::integer(const std::string& names, int64_t* value, int64_t min, int64_t max, const std::string& help) {
  const auto read = [=](const std::string& text) { return read_integer(text, min, max, value); };
  // A default outside the range means "unset", which the help explains in words.
  body_->add(names, "N", help, *value < min ? "" : std::to_string(*value), read, false);
}

void Options::real(const std::string& names, double* value, double min, double max, const std::string& help) {
  const auto read = [=](const std::string& text) { return read_real(text, min, max, value); };
  body_->add(names, "X", help, fmt::format("{}", *value), read, false);
}

void Options::size(const std::string& names, uint64_t* value, const std::string& help) {
  const auto read = [value](const std::string& text) {
    const Parsed<uint64_t> size = parse_size(text);
    if (!size.value) return size.why + "; give for example 4096, 64K, 1M or 0.5G";
    *value = *size.value;
    return std::string();
  };
  body_->add(names, "SIZE", help, size_text(*value), read, false);
}

void Options::flag(const std::string& names, bool* value, const std::string& help) {
  body_->app.add_flag(names, *value, help)->group(body_->heading);
}

void Options::group(const std::string& heading) { body_->heading = heading; }

void Options::example(const std::string& command, const std::string& meaning) {
  body_->examples += fmt::format("  {}\n      {}\n", command, meaning);
}

void Options::note(const std::string& text) { body_->notes += "\n" + text + "\n"; }

std::optional<int> Options::parse(int argc, const char* const* argv, Output& output) {
  Body& body = *body_;
  // Only "=FILE" belongs to --json: a bare one must not swallow the argument after it.
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  std::replace(arguments.begin(), arguments.end(), std::string("--json"), std::string("--json=-"));
  // Now, since a refusal is told as JSON too.
  for (const std::string& argument : arguments) {
    if (argument.rfind("--json=", 0) == 0) output.configure(true, argument.substr(std::strlen("--json=")), false);
  }
  std::string why = body.hand_out(std::move(arguments));
  if (body.help || body.version) {
    output.print(body.help ? body.help_text() : body.version_text());
    return output.result(kGood);
  }
  if (why.empty()) why = body.refusal();
  if (!why.empty()) return output.fail(kWrongUse, why);
  output.configure(given("--json"), body.json, body.quiet);
  return std::nullopt;
}

std::vector<std::string> Options::given() const {
  std::vector<std::string> names;
  for (const Value& value : body_->options) {
    if (value.option->count() != 0) names.push_back(value.name);
  }
  return names;
}

bool Options::given(const std::string& long_name) const {
  const CLI::Option* option = body_->app.get_option_no_throw(long_name);
  return option != nullptr && option->count() > 0;
}

}  // namespace tutti::program
