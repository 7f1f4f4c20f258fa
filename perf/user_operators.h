// Operators as a user writes them for tutti_op_create_user. What they must give is data.h's, which computes it otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::perf {

/// kUser: adds elements as whole numbers, the lowest byte first; what is carried beyond the last byte is lost. Carries
/// cross bytes but not elements, so an element that was cut in two shows. ctx: a size_t, the bytes of an element.
void add_numbers(void* ctx, const void* in, void* inout, uint64_t count);

/// kUserOrdered: composes maps, of which `in` is the outer one. It does not commute. ctx: a size_t, the bytes of an
/// element.
///
/// An element of n bytes is 2n numbers modulo 16: a factor (the lower half of the first byte) and a vector b of the others.
/// It stands for the map t -> factor * t + b. So (a, b) o (c, d) = (a * c, a * d + b).
void compose_maps(void* ctx, const void* in, void* inout, uint64_t count);

}  // namespace tutti::perf
