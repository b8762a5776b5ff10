#pragma once

namespace terrace::detail {

/// Flags that a rank sends to all others in the last bucket that it starts. The marks lie behind the gradients of the
/// bucket and are reduced with them, so they cost no call. The result is set if a mark is set on any rank.
struct bucket_marks {
    bool lacks_gradient = false;  ///< the iteration ends with an error
    bool asks_for_order = false;  ///< rank 0 proposes another order of buckets
};

}  // namespace terrace::detail
