// A queue of a test's own.
#pragma once

#include <gtest/gtest.h>

#include "include/tutti/tutti.h"
#include "tests/support/ranks.h"

namespace tutti::test {

/// A queue that ends with this object.
class OwnQueue {
 public:
  OwnQueue() { EXPECT_EQ(tutti_queue_create(&queue_), TUTTI_SUCCESS) << last_error(); }
  ~OwnQueue() { EXPECT_EQ(tutti_queue_destroy(queue_), TUTTI_SUCCESS); }
  OwnQueue(const OwnQueue&) = delete;
  OwnQueue& operator=(const OwnQueue&) = delete;

  tutti_stream stream() const { return {TUTTI_STREAM_QUEUE, queue_}; }
  tutti_status wait() const { return tutti_queue_wait(queue_, 0); }
  tutti_queue* get() const { return queue_; }

 private:
  tutti_queue* queue_ = nullptr;
};

}  // namespace tutti::test
