#pragma once

/// Marks what the shared library shows; all else in it is hidden.
#define TERRACE_API [[gnu::visibility("default")]]
