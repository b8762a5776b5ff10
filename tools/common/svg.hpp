#pragma once

#include <string>
#include <string_view>

namespace terrace::detail {

/// A drawing, in pixels from the upper left corner. Texts may hold any characters.
class svg {
public:
    svg(double width, double height) : width_(width), height_(height) {}

    struct style {
        std::string fill = "none", stroke = "none";
        double width = 1, opacity = 1, corner = 0;
    };
    enum class anchor { start, middle, end };

    /// `title` is shown where the pointer rests.
    void rect(double x, double y, double w, double h, const style& s, std::string_view title = {});
    void line(double x1, double y1, double x2, double y2, const std::string& stroke, double width = 1);
    /// "x,y x,y ...", as one line or closed area.
    void polyline(const std::string& points, const style& s);
    void text(double x, double y, std::string_view text, double size = 12, anchor where = anchor::start,
              const std::string& fill = "#222", bool bold = false);

    void grow(double height) noexcept { height_ = height; }
    std::string finish() const;

private:
    double width_, height_;
    std::string body_;
};

/// What a text of that size is about as wide as.
double text_width(std::string_view text, double size = 12) noexcept;

/// Colours that most people can tell apart, over and over.
std::string colour(int i);
/// The same on its way to white; 0: as it is, 1: white.
std::string lighter(const std::string& colour, double part);

}  // namespace terrace::detail
