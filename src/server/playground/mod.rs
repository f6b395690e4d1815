//! The page at `/`: one document without outside resources, so it works offline.

/// Its parts, in order. The scripts are one script with one scope: the first turns on strict mode
/// for all, and a later part's `const` or `class` may be used only inside functions that run later.
pub(super) const PAGE: &str = concat!(
    include_str!("head.html"),
    "<style>\n",
    include_str!("style.css"),
    "</style>\n</head>\n",
    include_str!("body.html"),
    "<script>\n",
    include_str!("script/elements.js"),
    include_str!("script/memory.js"),
    include_str!("script/scrolling.js"),
    include_str!("script/calls.js"),
    include_str!("script/form.js"),
    include_str!("script/question.js"),
    include_str!("script/events.js"),
    include_str!("script/view.js"),
    include_str!("script/earlier.js"),
    include_str!("script/requests.js"),
    include_str!("script/follower.js"),
    include_str!("script/page.js"),
    "</script>\n</body>\n</html>\n",
);
