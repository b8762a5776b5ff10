// Gives every reader the files of its corpus, undamaged and with seeded damage. Readers may throw only terrace::error.
// Files in a folder `whole` are only read undamaged, since damage to them would cost much time and find little. A
// topology format without a corpus gets the samples of tests/readers, or its example line.

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "fuzz/targets.hpp"
#include "support/samples.hpp"
#include "topology/formats.hpp"

namespace terrace::detail {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> texts_in(const fs::path& folder) {
    std::map<std::string, std::string> files;  // sorted, for equal damage on all machines
    if (fs::exists(folder))
        for (const fs::directory_entry& e : fs::directory_iterator(folder))
            if (e.is_regular_file()) files.emplace(e.path().filename().string(), read_text(e.path(), 1 << 20));
    std::vector<std::string> texts;
    for (auto& [file, text] : files) texts.push_back(std::move(text));
    return texts;
}

std::vector<std::string> texts_of(const fuzz_target& target) {
    const fs::path tests = fs::path(TERRACE_SOURCE_ROOT) / "tests";
    std::vector<std::string> texts = texts_in(tests / "fuzz" / "corpus" / target.name);
    const topology_format* format = find_format(target.name);
    if (!texts.empty() || format == nullptr) return texts;
    if (!format->line.empty()) return {std::string(format->line)};
    for (const fs::path& sample : sample_files(tests / "readers" / "samples"))
        if (&format_of(sample.string()) == format) texts.push_back(read_text(sample, 1 << 20));
    return texts;
}

class damager {
public:
    explicit damager(const std::vector<std::string>& texts) : texts_(texts) {}

    std::string damaged(std::string text) {
        for (int n = 1 + below(4); n > 0; --n) once(text);
        return text;
    }

private:
    int below(std::size_t n) { return static_cast<int>(std::uniform_int_distribution<std::size_t>(0, n - 1)(dice_)); }
    std::size_t place(const std::string& text) { return static_cast<std::size_t>(below(text.size() + 1)); }

    void once(std::string& text) {
        static const std::vector<std::string> pieces{"0",
                                                     "-1",
                                                     "999999999999999999999",
                                                     "1e308",
                                                     "nan",
                                                     "[",
                                                     "]",
                                                     "{",
                                                     "}",
                                                     "[0-999999]",
                                                     ",",
                                                     ":",
                                                     "\"",
                                                     "'",
                                                     "<",
                                                     ">",
                                                     "</",
                                                     "/>",
                                                     "&",
                                                     "&lt;",
                                                     "<!--",
                                                     "<![CDATA[",
                                                     "\n",
                                                     "\t",
                                                     "\\\n",
                                                     "#",
                                                     "=",
                                                     "|",
                                                     "*a",
                                                     "&a ",
                                                     "!!t ",
                                                     std::string(1, '\0'),
                                                     "\xff\xfe",
                                                     "\xc3",
                                                     "  ",
                                                     std::string(300, '['),
                                                     std::string(3000, 'x')};
        const std::size_t at = place(text);
        const std::size_t length = std::min(text.size() - at, std::size_t{1} << below(8));
        switch (below(7)) {
            case 0:
                if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
                break;
            case 1: text.erase(at, length); break;
            case 2: text.insert(at, text.substr(at, length)); break;
            case 3: text.resize(at); break;
            case 4: text.insert(at, pieces[static_cast<std::size_t>(below(pieces.size()))]); break;
            case 5: text.replace(at, length, pieces[static_cast<std::size_t>(below(pieces.size()))]); break;
            case 6: {
                const std::string& other = texts_[static_cast<std::size_t>(below(texts_.size()))];
                const std::size_t from = place(other);
                text.insert(at, other.substr(from, std::size_t{1} << below(10)));
                break;
            }
        }
    }

    const std::vector<std::string>& texts_;
    std::mt19937_64 dice_{20};
};

class replay : public ::testing::TestWithParam<fuzz_target> {};

TEST_P(replay, only_errors_come_out) {
    const fs::path folder = fs::path(TERRACE_SOURCE_ROOT) / "tests" / "fuzz" / "corpus" / GetParam().name;
    const std::vector<std::string> texts = texts_of(GetParam());
    ASSERT_FALSE(texts.empty());
    damager d(texts);
    int read = 0, refused = 0;
    const auto give = [&](const std::string& text) {
        try {
            GetParam().read(text);
            ++read;
        } catch (const error&) {
            ++refused;
        }
    };
    for (const std::string& text : texts) give(text);
    for (const std::string& text : texts_in(folder / "whole")) give(text);
    EXPECT_GT(read, 0);  // the corpus has valid files
    for (const std::string& text : texts)
        for (int i = 0; i < GetParam().mutations; ++i) give(d.damaged(text));
    EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(readers, replay, ::testing::ValuesIn(fuzz_targets()), [](const auto& info) {
    std::string name(info.param.name);
    std::ranges::replace(name, '-', '_');
    return name;
});

}  // namespace
}  // namespace terrace::detail
