//! Each fault is reported with its place and a remedy.

use crate::world::errors;

#[test]
fn each_fault_has_its_place_and_a_remedy() {
    for (script, expected) in [
        (
            "fileinto \"A\";",
            "line 1, column 1: the action \"fileinto\" needs an extension: write require \"fileinto\"; at the beginning",
        ),
        ("keep;\nrequire \"copy\";", "line 2, column 1: \"require\" must precede all other commands"),
        (
            "require [\"copy\", \"Fileinto\"];",
            "line 1, column 18: the extension \"Fileinto\" is not available here: write \"fileinto\"",
        ),
        ("kep;", "there is no command \"kep\""),
        ("if tru { keep; }", "line 1, column 4: there is no test \"tru\""),
        ("if header :is :contains \"a\" \"b\" {}", "has two match types"),
        ("if header :contians \"a\" \"b\" {}", "knows no \":contians\""),
        ("if header \"a\" {}", "\"header\" needs names of header fields, then keys; there is 1 argument"),
        ("if header \"a\" :is \"b\" {}", "the tags of \"header\" must precede its other arguments"),
        ("if header \"Subject:\" \"b\" {}", "write it without a colon"),
        ("if header :comparator \"i;klingon\" \"a\" \"b\" {}", "there is no comparator"),
        (
            "if header :comparator \"i;ascii-numeric\" \"a\" \"b\" {}",
            "require \"comparator-i;ascii-numeric\"",
        ),
        ("if address \"subject\" \"b\" {}", "use \"header\" for it"),
        ("if size 100 {}", "either \":over\" or \":under\""),
        ("if size :over \"100\" {}", "needs a number, without quotes"),
        ("if not {}", "\"not\" needs one test"),
        ("if anyof true {}", "must be in parentheses"),
        ("if true, true {}", "expected"),
        ("else { keep; }", "must follow \"if\""),
        ("if true { keep; } else { } else { }", "must not follow \"else\""),
        ("keep { }", "\"keep\" takes no block"),
        ("keep true;", "\"keep\" takes no tests"),
        ("redirect \"nobody\";", "is not an address"),
        ("redirect [\"a@b.c\"];", "a string in double quotes"),
        ("require \"regex\"; if header :regex \"a\" \"(\" {}", "not a regular expression"),
        ("require \"regex\"; if header :regex \"a\" \"(a{1000}){1000}\" {}", "too large"),
        ("require \"variables\"; set \"1a\" \"x\";", "is not the name of a variable"),
        ("require \"variables\"; set :lower :upper \"a\" \"x\";", "exclude each other"),
        ("require \"variables\"; set \"a\" \"${x.y}\";", "there is no variable"),
        ("require [\"variables\", \"include\"]; include \"${x}\";", "may have no variables"),
        ("require \"foreverypart\"; break;", "no foreverypart is open"),
        ("require \"date\"; if date \"date\" \"fortnight\" \"1\" {}", "a date has no part \"fortnight\""),
        ("require \"date\"; if currentdate :zone \"CET\" \"year\" \"1\" {}", "is not a time zone"),
        ("require \"enotify\"; notify \"xmpp:a\";", "write \"mailto:name@example.org\""),
        (
            "require [\"vacation\", \"vacation-seconds\"]; vacation :days 1 :seconds 1 \"x\";",
            "exclude each other",
        ),
        ("require \"encoded-character\"; redirect \"${unicode:D800}\";", "is not a character of Unicode"),
        ("require \"envelope\"; if envelope \"auth\" \"x\" {}", "the envelope has no part"),
        ("require \"relational\"; if header :count \"more\" \"a\" \"1\" {}", "is not a relation"),
    ] {
        let said = errors(script);
        assert!(said.contains(expected), "{script}\n{said}");
    }
}

#[test]
fn all_faults_are_reported_in_order() {
    let said = errors("fileinto \"A\";\nkep;\nif header \"a\" {}\n");
    let lines: Vec<_> = said.lines().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(lines, ["line 1", "line 2", "line 3"]);
}
