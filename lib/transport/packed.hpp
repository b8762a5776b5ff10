#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.hpp"

namespace terrace::detail {

/// Texts in one string, each after its length.
class packed {
public:
    packed() = default;
    packed(std::initializer_list<std::string_view> texts) {
        for (const std::string_view text : texts) add(text);
    }
    /// Reads texts from the result of bytes(). A text that is cut off at the end is left out.
    explicit packed(std::string_view bytes) { add_all(bytes); }

    void add(std::string_view value) {
        const std::uint64_t length = value.size();
        bytes_.append(reinterpret_cast<const char*>(&length), sizeof length).append(value);
        ends_.push_back(bytes_.size());
    }
    void add_all(std::string_view bytes) {
        std::uint64_t length = 0;
        while (bytes.size() >= sizeof length) {
            std::memcpy(&length, bytes.data(), sizeof length);
            bytes.remove_prefix(sizeof length);
            if (length > bytes.size()) return;
            add(bytes.substr(0, length));
            bytes.remove_prefix(length);
        }
    }

    int size() const noexcept { return static_cast<int>(ends_.size()); }
    const std::string& bytes() const noexcept { return bytes_; }
    std::string_view first(int values) const { return std::string_view(bytes_).substr(0, ends_[at(values - 1)]); }
    std::vector<std::string> values() const {
        std::vector<std::string> all;
        for (int i = 0; i < size(); ++i) all.emplace_back(value(i));
        return all;
    }
    std::string_view value(int i) const {
        const std::size_t begin = (i == 0 ? 0 : ends_[at(i - 1)]) + sizeof(std::uint64_t);
        return std::string_view(bytes_).substr(begin, ends_[at(i)] - begin);
    }

private:
    std::string bytes_;
    std::vector<std::size_t> ends_;
};

}  // namespace terrace::detail
