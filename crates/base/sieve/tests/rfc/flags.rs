//! RFC 5232.

use crate::world::{check, effects};

fn with(body: &str) -> Vec<String> {
    effects(&format!(
        "require [\"imap4flags\", \"fileinto\", \"variables\", \"relational\", \"comparator-i;ascii-numeric\", \"copy\"]; {body}"
    ))
}

#[test]
fn flags_go_with_what_is_stored() {
    for (body, expected) in [
        ("setflag \"\\\\Seen\";", vec!["implicit keep \\Seen"]),
        ("setflag \"\\\\Seen\"; addflag [\"$Junk\", \"\\\\seen x\"]; keep;", vec!["keep \\Seen $Junk x"]),
        (
            "setflag \"a b\"; removeflag \"A\"; fileinto \"X\"; fileinto :flags \"c\" \"Y\";",
            vec!["file X b", "file Y c"],
        ),
        ("setflag \"a\"; setflag \"\"; keep;", vec!["keep"]),
        ("setflag \"v\" \"a b\"; addflag \"v\" \"c\"; keep :flags \"${v}\";", vec!["keep a b c"]),
        ("setflag \"\\\\Recent \\\\Unknown ok\"; keep;", vec!["keep ok"]),
        ("setflag \"a\"; keep :flags [\"b\", \"c\"];", vec!["keep b c"]),
    ] {
        assert_eq!(with(body), expected, "{body}");
    }
}

#[test]
fn hasflag_looks_at_single_flags() {
    for (body, expected) in [
        ("addflag \"a b\"; if hasflag \"B\" { discard; }", true),
        ("addflag \"ab\"; if hasflag :contains \"b\" { discard; }", true),
        ("addflag \"ab\"; if hasflag \"b\" { discard; }", false),
        (
            "addflag \"a b\"; if hasflag :count \"ge\" :comparator \"i;ascii-numeric\" \"2\" { discard; }",
            true,
        ),
        ("addflag \"v\" \"a b\"; if hasflag :is \"v\" \"b\" { discard; }", true),
    ] {
        assert_eq!(with(body)[0] == "discard", expected, "{body}");
    }
    check("\"imap4flags\"", &[("hasflag \"\\\\Seen\"", false)]);
}
