//! RFC 5229.

use crate::world::{check, effects};

fn filed(body: &str) -> String {
    let made = effects(&format!(
        "require [\"variables\", \"fileinto\", \"relational\", \"comparator-i;ascii-numeric\", \"body\"]; {body}"
    ));
    made[0].strip_prefix("file ").unwrap_or(&made[0]).to_string()
}

#[test]
fn values_and_modifiers() {
    for (body, expected) in [
        ("set \"a\" \"x\"; fileinto \"[${A}${b}]\";", "[x]"),
        ("set \"a\" \"x\"; set \"a\" \"${a}${a}\"; fileinto \"${a}\";", "xx"),
        ("set :upperfirst :lower \"a\" \"tHE tOWN\"; fileinto \"${a}\";", "The town"),
        ("set :length \"a\" \"grüße\"; fileinto \"${a}\";", "5"),
        ("set :quotewildcard \"a\" \"a*b?\"; fileinto \"${a}\";", "a\\*b\\?"),
        ("set \"a\" \"x\"; fileinto \"${${a}}\";", "${x}"),
        ("fileinto \"${bad name}${\";", "${bad name}${"),
    ] {
        assert_eq!(filed(body), expected, "{body}");
    }
}

#[test]
fn match_variables() {
    for (body, expected) in [
        (
            "if header :matches \"subject\" \"* from *\" { fileinto \"${1}/${2}/${0}/${3}x\"; }",
            "Grüße/Ana/Grüße from Ana/x",
        ),
        // RFC 5229 §3.2: a match that fails leaves them.
        (
            "if header :matches \"x-tag\" \"t?o\" {} if header :matches \"subject\" \"no*\" {} fileinto \"${1}\";",
            "w",
        ),
        (
            "if header :matches \"x-tag\" \"t*\" {} if header :is \"x-tag\" \"one\" {} fileinto \"${1}\";",
            "wo",
        ),
        // RFC 5229 §3.2: lists of tests stop, so that the first match counts.
        (
            "if anyof (header :matches \"x-tag\" \"o*\", header :matches \"x-tag\" \"t*\") { fileinto \"${1}\"; }",
            "ne",
        ),
        // RFC 5173 §6: body sets none.
        ("if header :matches \"x-tag\" \"o*\" {} if body :matches \"*Ken*\" { fileinto \"${1}\"; }", "ne"),
    ] {
        assert_eq!(filed(body), expected, "{body}");
    }
}

#[test]
fn strings_are_tested() {
    check(
        "\"variables\", \"relational\", \"comparator-i;ascii-numeric\"",
        &[
            ("string :is \"${none}\" \"\"", true),
            ("string :matches [\"a\", \"bcd\"] \"b?d\"", true),
            ("string :count \"eq\" :comparator \"i;ascii-numeric\" [\"\", \"a\", \"b\"] \"2\"", true),
            ("string :value \"ge\" :comparator \"i;ascii-numeric\" \"10\" \"9\"", true),
        ],
    );
}

#[test]
fn long_values_are_cut_between_characters() {
    let script = "set \"a\" \"ü234567\"; ".to_string()
        + &"set \"a\" \"${a}${a}\";".repeat(11)
        + "set :length \"b\" \"${a}\"; fileinto \"${b}\";";
    // 8,192 bytes, of which each 8 are 7 characters.
    assert_eq!(filed(&script), "7168");
}
