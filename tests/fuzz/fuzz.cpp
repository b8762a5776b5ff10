// The entry points of libFuzzer. The environment variable TERRACE_FUZZ_TARGET names the reader.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <terrace/error.hpp>

#include "fuzz/targets.hpp"

namespace {

const terrace::detail::fuzz_target* target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
    const char* name = std::getenv("TERRACE_FUZZ_TARGET");
    for (const terrace::detail::fuzz_target& t : terrace::detail::fuzz_targets())
        if (name != nullptr && t.name == name) target = &t;
    if (target == nullptr) {
        std::fputs("set TERRACE_FUZZ_TARGET to one of:", stderr);
        for (const terrace::detail::fuzz_target& t : terrace::detail::fuzz_targets())
            std::fprintf(stderr, " %.*s", static_cast<int>(t.name.size()), t.name.data());
        std::fputs("\n", stderr);
        std::exit(2);
    }
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        target->read({reinterpret_cast<const char*>(data), size});
    } catch (const terrace::error&) {}
    return 0;
}
