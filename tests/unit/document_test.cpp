#include "base/document.hpp"
#include "support/refusal.hpp"

#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

namespace terrace::detail::document_test {
namespace {

std::string error_of(const std::string& text) {
    return refusal_of<input_error>([&] { document::parse(text, "f"); });
}

TEST(document, values_know_their_kind_and_place) {
    const document d = document::parse("a: 1\nb:\n  - x\n  - {c: 'two words'}\n", "f");
    EXPECT_TRUE(d.is_map());
    EXPECT_EQ(d.at("a").integer(0, 9), 1);
    const std::vector<document> items = d.at("b").items();
    ASSERT_EQ(items.size(), 2u);
    EXPECT_EQ(items[0].text(), "x");
    EXPECT_EQ(items[1].at("c").text(), "two words");
    EXPECT_EQ(items[1].line(), 4);
    EXPECT_EQ(d.entries()[1].first, "b");
}

TEST(document, refuses_what_is_not_strict_yaml) {
    struct refused {
        std::string text;
        std::string error;
    };
    const std::vector<refused> table{
        {"", "f: the file is empty"},
        {"a: 1\nb: {c: 2, c: 3}\n", "f:2:11: key \"c\" is there twice"},
        {"a: &x 1\nb: *x\n", "f:1:4: anchors"},
        {"a: *x\n", "f:1:4: "},
        {"a: !!str 1\n", "f:1:4: tags"},
        {"a: !mine {b: 1}\n", "f:1:4: tags"},
        {"a:\n", "f:2:1: a value is missing"},
        {"a: ~\n", "f:1:4: a value is missing"},
        {"a: 1\n---\nb: 2\n", "f:2:1: a second document"},
        {"[a]: 1\n", "f:1:1: a key must be"},
        {"a: [1, 2\nb: 3\n", "f:2:2: end of sequence flow not found: close the list with ]"},
        {"a: b: c\n", "f:1:5: illegal map value: put a text that holds"},
        {"a: {b: 1\n", "f:2:1: end of map flow not found: close the map with }"},
        {"a: @x\n", "f:1:4: unknown token: put a text that begins with"},
        {"a: 'x", "close the quotes"},
        {"a: |x\n", "this is not YAML; look for"},
        {"a: \xff\n", "f:1:4: byte 0xff is not UTF-8"},
        {"a: \xc0\x80\n", "f:1:4: byte 0xc0 is not UTF-8"},
        {"a: \xed\xa0\x80\n", "f:1:4: byte 0xed is not UTF-8"},
        {std::string("a: x\0y", 6), "f:1:5: byte 0x00 is a control character"},
        {"a: 1\nb: x\x04", "f:2:5: byte 0x04 is a control character"},
        {"a: \"x\\0\"\n", "f:1:4: an escaped control character"},
        {"a: " + std::string(65, '[') + std::string(65, ']'), "nested deeper than 64"},
        {std::string(1 << 20, '['), "characters that structure YAML"},
        {std::string((16 << 20) + 1, '#'), "f: larger than 8 MiB"},
    };
    for (const refused& r : table)
        EXPECT_NE(error_of(r.text).find(r.error), std::string::npos)
            << r.text.substr(0, 40) << ": " << error_of(r.text);
}

TEST(document, reads_regular_files_only) {
    const std::filesystem::path pipe = std::filesystem::path(::testing::TempDir()) / "document_test.pipe";
    ::unlink(pipe.c_str());
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    for (const auto& [file, why] :
         {std::pair{pipe, "no regular file"}, std::pair{pipe.parent_path(), "is a directory"}}) {
        try {
            document::read_file(file);
            ADD_FAILURE() << file << " was read";
        } catch (const input_error& e) {
            EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
        }
    }
    ::unlink(pipe.c_str());
}

TEST(document, depth_of_64_is_read) {
    EXPECT_EQ(error_of(std::string(64, '[') + "x" + std::string(64, ']')), "accepted");
    EXPECT_NE(error_of(std::string(65, '[') + "x" + std::string(65, ']')), "accepted");
}

TEST(document, too_many_values_are_refused) {
    std::string text;
    for (int i = 0; i < 500'001; ++i) text += "- a\n";
    EXPECT_NE(error_of(text).find("f:500000:3: more than 500000 values"), std::string::npos) << error_of(text);
}

TEST(document, values_of_another_kind_are_refused_at_their_place) {
    const document d = document::parse("n: 12\nunit: 3 parsec\nlist: [1]\nmap: {known: 1, other: 2}\n", "f");
    const auto error = [](auto&& call) -> std::string { return refusal_of<input_error>([&] { call(); }); };
    EXPECT_EQ(error([&] { d.at("n").integer(0, 11); }), "f:1:4: \"12\" is not an integer from 0 to 11");
    EXPECT_EQ(error([&] { d.at("n").integer(0, 12); }), "accepted");
    EXPECT_NE(error([&] { d.at("unit").integer(0, 9); }).find("f:2:7: "), std::string::npos);
    EXPECT_NE(error([&] { d.at("unit").bandwidth(); }).find("bit/s"), std::string::npos);
    EXPECT_NE(error([&] { d.at("unit").duration(); }).find("ns, us, ms or s"), std::string::npos);
    EXPECT_NE(error([&] { d.at("unit").bytes(); }).find("KiB"), std::string::npos);
    EXPECT_EQ(error([&] { d.at("list").text(); }), "f:3:7: expected a single value, found a list");
    EXPECT_EQ(error([&] { d.at("n").items(); }), "f:1:4: expected a list, found a single value");
    EXPECT_EQ(error([&] { d.at("list").has("x"); }), "f:3:7: expected a map, found a list");
    EXPECT_EQ(error([&] { d.at("absent"); }), "f:1:1: \"absent\" is missing here");
    EXPECT_EQ(error([&] { d.at("map").allow_only({"known"}); }), "f:4:17: unknown key \"other\"; known here: known");
}

TEST(document, scalars_read_back) {
    for (const std::string text :
         {"node",     "10 GB/s",   "two words", "",    "null", "Yes",        "12",          "1.5",
          "a: b",     "#x",        "x #y",      "-",   "~",    "\"quoted\"", "back\\slash", "line\nbreak\ttab\r",
          " padded ", "xxh3:00ff", "ünïcode",   "[1]", "*a",   "&a",         "!a",          "2020-01-01"}) {
        const document d = document::parse("key: " + yaml_scalar(text) + "\n", "f");
        EXPECT_EQ(d.at("key").text(), text);
    }
    EXPECT_EQ(yaml_scalar("paper-192gpu"), "paper-192gpu");
    EXPECT_EQ(yaml_scalar("10 GB/s"), "10 GB/s");
    EXPECT_EQ(yaml_scalar("true"), "\"true\"");
    EXPECT_EQ(yaml_scalar("12"), "\"12\"");
}

class written_file : public ::testing::Test {
protected:
    void SetUp() override { std::filesystem::create_directories(directory_); }
    void TearDown() override { std::filesystem::remove_all(directory_); }
    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory_), {}));
    }
    std::filesystem::path directory_ =
        std::filesystem::path(::testing::TempDir()) /
        ("terrace-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(written_file, replaces_the_old_one_and_leaves_nothing_else) {
    const std::filesystem::path file = directory_ / "plan.yaml";
    write_atomically(file, "old and long");
    write_atomically(file, "new");
    EXPECT_EQ(read_text(file, 100), "new");
    EXPECT_EQ(files(), 1u);
}

TEST_F(written_file, may_be_a_link) {
    write_atomically(directory_ / "target", "old");
    std::filesystem::create_symlink("target", directory_ / "link");
    write_atomically(directory_ / "link", "new");
    EXPECT_TRUE(std::filesystem::is_symlink(directory_ / "link"));
    EXPECT_EQ(read_text(directory_ / "target", 100), "new");
}

TEST_F(written_file, may_be_what_links_lead_to) {
    std::filesystem::create_symlink("second", directory_ / "first");
    std::filesystem::create_symlink(directory_ / "target", directory_ / "second");
    write_atomically(directory_ / "first", "new");
    EXPECT_TRUE(std::filesystem::is_symlink(directory_ / "first"));
    EXPECT_TRUE(std::filesystem::is_symlink(directory_ / "second"));
    EXPECT_EQ(read_text(directory_ / "target", 100), "new");
    std::filesystem::create_symlink("loop", directory_ / "loop");
    EXPECT_THROW(write_atomically(directory_ / "loop", "new"), input_error);
}

TEST_F(written_file, keeps_its_permissions) {
    using std::filesystem::perms;
    write_atomically(directory_ / "file", "old");
    for (const perms mode : {perms::owner_read | perms::owner_write, perms::owner_read | perms::others_write}) {
        std::filesystem::permissions(directory_ / "file", mode);
        write_atomically(directory_ / "file", "new");
        EXPECT_EQ(std::filesystem::status(directory_ / "file").permissions(), mode);
    }
}

TEST_F(written_file, need_not_be_regular) { EXPECT_NO_THROW(write_atomically("/dev/null", "gone")); }

TEST_F(written_file, failure_names_it_and_leaves_nothing) {
    std::filesystem::create_directory(directory_ / "taken");
    EXPECT_THROW(write_atomically(directory_ / "taken", "x"), input_error);
    EXPECT_THROW(write_atomically(directory_ / "absent" / "file", "x"), input_error);
    EXPECT_EQ(files(), 1u);
}

TEST_F(written_file, reading_is_capped) {
    write_atomically(directory_ / "file", "12345");
    EXPECT_EQ(read_text(directory_ / "file", 5), "12345");
    EXPECT_THROW(read_text(directory_ / "file", 4), input_error);
    EXPECT_THROW(read_text(directory_ / "absent", 4), input_error);
    EXPECT_THROW(read_text(directory_, 4), input_error);
}

}  // namespace
}  // namespace terrace::detail::document_test
