// libFuzzer's way in; TERRACE_FUZZ_TARGET names the reader.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <terrace/error.hpp>

#include "fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    for (const terrace::fuzz_target& t : terrace::fuzz_targets())
        if (t.name == TERRACE_FUZZ_TARGET) try {
                t.read({reinterpret_cast<const char*>(data), size});
            } catch (const terrace::error&) {}
    return 0;
}
