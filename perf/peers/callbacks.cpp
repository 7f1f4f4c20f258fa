#include "perf/peers/callbacks.h"

#include <array>
#include <string>

#include "perf/peers/contender.h"
#include "src/tables/names.h"

namespace tutti::perf {
namespace {

class Foreign : public Contender {
 public:
  explicit Foreign(const compare_callbacks& callbacks) : call_(callbacks) {}

  std::string start(const ContenderPlace& place) override {
    call_.start(place.rank, place.ranks, place.folder.c_str(), place.address_of(place.rank).c_str(), listen());
    return said();
  }

  std::string version() override {
    call_.version(listen());
    return said();
  }

  std::string lacks(const CheckedOperation& operation) override {
    call_.lacks(operation.collective->name, text_of(operation.pattern.type).c_str(), text_of(operation.pattern.op).c_str(),
                operation.in_place, operation.root, operation.count, listen());
    return said();
  }

  std::string prepare(const CheckedOperation& operation, const Places& first, uint64_t slots, uint64_t stride) override {
    for (uint64_t slot = 0; slot < slots; ++slot) {
      call_.slot(first.send + slot * stride, first.recv + slot * stride, operation.send_bytes(), operation.recv_bytes(),
                 listen());
      if (std::string why = said(); !why.empty()) return why;
    }
    return "";
  }

  void finish() override { call_.finish(); }

  bool run(const CheckedOperation&, const Places&) override {
    call_.run(1, 1, listen());
    return heard_[0] == '\0';
  }

  bool run_batch(const CheckedOperation&, const std::function<Places(uint64_t)>&, uint64_t operations) override {
    call_.run(operations, 0, listen());
    return heard_[0] == '\0';
  }

  std::string complaint() override { return said(); }

 private:
  char* listen() {
    heard_.fill('\0');
    return heard_.data();
  }
  std::string said() const { return heard_.data(); }

  const compare_callbacks& call_;
  std::array<char, 512> heard_ = {};
};

}  // namespace
}  // namespace tutti::perf

int compare_serve(const compare_callbacks* callbacks, int argc, char** argv) {
  tutti::perf::Foreign contender(*callbacks);
  return tutti::perf::serve(contender, argc, argv);
}
