//! Comparators, RFC 5231, draft-ietf-sieve-regex, and the names that `ihave` may test.

use crate::world::{check, effects};

#[test]
fn relations() {
    check(
        "\"relational\", \"comparator-i;ascii-numeric\"",
        &[
            ("header :count \"eq\" :comparator \"i;ascii-numeric\" \"x-tag\" \"3\"", true),
            ("header :count \"ge\" :comparator \"i;ascii-numeric\" [\"x-tag\", \"subject\"] \"4\"", true),
            ("header :count \"lt\" :comparator \"i;ascii-numeric\" \"x-none\" \"1\"", true),
            ("address :count \"eq\" :comparator \"i;ascii-numeric\" \"to\" \"2\"", true),
            ("header :value \"gt\" \"x-tag\" \"tv\"", true),
            ("header :value \"gt\" \"x-tag\" \"tx\"", false),
            ("header :value \"ne\" \"x-empty\" \"\"", false),
            ("header :value \"le\" \"subject\" \"a\"", false),
        ],
    );
}

#[test]
fn comparator_for_all_scripts() {
    check(
        "\"comparator-i;unicode-casemap\", \"comparator-i;octet\", \"comparator-i;ascii-casemap\"",
        &[
            ("header :contains :comparator \"i;unicode-casemap\" \"subject\" \"GRÜ\"", true),
            ("header :contains :comparator \"i;ascii-casemap\" \"subject\" \"GRÜ\"", false),
            ("header :contains :comparator \"i;octet\" \"subject\" \"Grü\"", true),
        ],
    );
}

#[test]
fn regular_expressions() {
    check(
        "\"regex\"",
        &[
            ("header :regex \"subject\" \"^gr.*(ana|bo)$\"", true),
            ("header :regex :comparator \"i;octet\" \"subject\" \"^gr\"", false),
            ("header :regex \"x-tag\" \"^t[[:alpha:]]o$\"", true),
            ("header :regex \"x-tag\" \"^t{3}$\"", false),
        ],
    );
    let script = "require [\"regex\", \"variables\", \"fileinto\"]; if header :regex \"subject\" \"from (.)(n)\" { fileinto \"${1}-${2}-${0}-${3}\"; }";
    assert_eq!(effects(script), ["file A-n-from An-"]);
    // POSIX: the longest of all, and then of each part.
    let script = "require [\"regex\", \"variables\", \"fileinto\"]; if header :regex \"subject\" \"(A|An)(n|na)?\" { fileinto \"${0}-${1}-${2}\"; }";
    assert_eq!(effects(script), ["file Ana-A-na"]);
    let script = "require [\"regex\", \"variables\", \"fileinto\"]; if header :regex \"x-tag\" \"^(t|th)(hr|r)(ee)\" { fileinto \"${1}-${2}-${3}\"; }";
    assert_eq!(effects(script), ["file th-r-ee"]);
}

#[test]
fn ihave_decides_what_is_checked() {
    // RFC 5463 §4: unreachable commands are not checked.
    let script = "require [\"ihave\"]; if ihave \"x-none\" { do_it :fast \"x\"; } elsif ihave [\"fileinto\", \"copy\"] { fileinto :copy \"A\"; } else { no_such; }";
    assert_eq!(effects(script), ["file A", "implicit keep"]);
    let script = "require \"ihave\"; if allof (ihave \"x-none\", x_test \"a\") { x_do; } if not ihave \"x-none\" { discard; }";
    assert_eq!(effects(script), ["discard"]);
}
