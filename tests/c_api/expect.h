#pragma once

#include <stdio.h>
#include <string.h>

#include <terrace/terrace.h>

// Number of failed expectations, per thread, since ranks may be threads.
static _Thread_local int wrong = 0;

#define EXPECT(what)  \
    ((what) ? (void)0 \
            : (void)(++wrong, fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #what, terrace_last_error())))
#define EXPECT_OK(call) EXPECT((call) == terrace_ok)
#define EXPECT_SAYS(text) EXPECT(strstr(terrace_last_error(), text) != NULL)
