//! The page at `/`: one document with everything in it, so that it works where no internet is.

/// Its parts, in order. Scripts may use what follows them only when something happens.
pub(super) const PAGE: &str = concat!(
    include_str!("head.html"),
    "<style>\n",
    include_str!("style.css"),
    "</style>\n</head>\n",
    include_str!("body.html"),
    "<script>\n",
    include_str!("script/basics.js"),
    include_str!("script/reading.js"),
    include_str!("script/calls.js"),
    include_str!("script/questions.js"),
    include_str!("script/view.js"),
    include_str!("script/requests.js"),
    include_str!("script/follower.js"),
    include_str!("script/page.js"),
    "</script>\n</body>\n</html>\n",
);
