#pragma once

namespace terrace::detail {

/// What one rank says to all others in the last bucket that it starts, at no cost: behind the gradients of a bucket lie
/// its marks, which are reduced with it. A mark is set if it is set on any rank.
struct bucket_marks {
    bool lacks_gradient = false;  ///< the iteration ends by an error
    bool asks_for_order = false;  ///< the rank that decides proposes another order of buckets
};

}  // namespace terrace::detail
