//! RFC 6609.

use posthaste_sieve::Location;

use crate::world::{MESSAGE, World, words};

fn world() -> World {
    World::default()
        .with_script(Location::Personal, "set", "require [\"include\", \"variables\"]; global \"g\"; set \"g\" \"G\"; set \"l\" \"L\"; if header :matches \"subject\" \"*\" {}")
        .with_script(Location::Global, "file", "require [\"fileinto\"]; fileinto \"Filed\"; return_not_reached_is_an_error;")
        .with_script(Location::Global, "stop", "require [\"include\", \"fileinto\"]; fileinto \"S\"; stop;")
        .with_script(Location::Global, "return", "require [\"include\", \"fileinto\"]; fileinto \"R\"; return; fileinto \"X\";")
        .with_script(Location::Personal, "self", "require \"include\"; include \"self\";")
}

#[test]
fn included_scripts() {
    for (body, expected) in [
        ("global \"g\"; include \"set\"; fileinto \"[${g}${l}${0}${global.g}]\";", vec!["file [GG]"]),
        ("include :global \"stop\"; fileinto \"X\";", vec!["file S"]),
        ("include :global \"return\"; fileinto \"Y\";", vec!["file R", "file Y"]),
        ("include :global :once \"return\"; include :once :global \"return\";", vec!["file R"]),
        ("include :optional \"none\"; return; keep;", vec!["implicit keep"]),
    ] {
        let outcome =
            world().run(&format!("require [\"include\", \"variables\", \"fileinto\"]; {body}"), MESSAGE);
        assert_eq!(
            (words(&outcome), outcome.error),
            (expected.iter().map(|s| s.to_string()).collect(), None),
            "{body}"
        );
    }
}

#[test]
fn faults_of_included_scripts_keep_the_message() {
    for (body, words_of_error) in [
        ("include \"none\";", "there is no script"),
        ("include \"self\";", "includes itself"),
        ("include :global \"file\";", "no command \"return_not_reached_is_an_error\""),
    ] {
        let outcome = world().run(&format!("require \"include\"; {body}"), MESSAGE);
        assert_eq!(words(&outcome), ["implicit keep"]);
        let error = outcome.error.unwrap().to_string();
        assert!(error.contains(words_of_error), "{error}");
    }
}
