#include "tests/standin/failures.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>

namespace standin {
namespace {

using tutti::cuda::DriverResult;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

bool read_number(const std::string& text, std::uint64_t& out) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && stop == text.data() + text.size();
}

std::optional<FailureOrder> read_order(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  FailureOrder order;
  std::uint64_t error = static_cast<std::uint64_t>(order.error);
  if (parts.size() < 2 || parts.size() > 3 || !read_number(parts[1], order.at)) return std::nullopt;
  if (parts.size() == 3 && !read_number(parts[2], error)) return std::nullopt;
  order.entry = parts[0];
  order.error = static_cast<DriverResult>(error);
  return order;
}

}  // namespace

bool Failures::order(const std::string& text) {
  orders_.clear();
  std::vector<FailureOrder> orders;
  for (const std::string& part : split(text, ',')) {
    const auto order = read_order(part);
    if (!order) return false;
    orders.push_back(*order);
  }
  orders_ = std::move(orders);
  return true;
}

DriverResult Failures::count(const char* entry) {
  ++calls_[entry];
  DriverResult result = DriverResult::success;
  for (FailureOrder& order : orders_) {
    if (order.entry != entry) continue;
    ++order.seen;
    if (order.at == 0 || order.seen == order.at) result = order.error;
  }
  return result;
}

std::uint64_t Failures::calls(const std::string& entry) const {
  const auto found = calls_.find(entry);
  return found == calls_.end() ? 0 : found->second;
}

Failures& failures() {
  static Failures& only = *new Failures;
  return only;
}

bool sticky_by_nature(DriverResult result) {
  constexpr std::array sticky = {
      DriverResult::ecc_uncorrectable,   DriverResult::nvlink_uncorrectable, DriverResult::illegal_address,
      DriverResult::launch_timeout,      DriverResult::device_assert,        DriverResult::hardware_stack_error,
      DriverResult::illegal_instruction, DriverResult::misaligned_address,   DriverResult::invalid_address_space,
      DriverResult::invalid_pc,          DriverResult::launch_failed,
  };
  return std::find(sticky.begin(), sticky.end(), result) != sticky.end();
}

}  // namespace standin
