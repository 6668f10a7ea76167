//! Scripts that are small and would take much memory once they are compiled.

use posthaste_sieve::{Capabilities, Script};

/// A script with this many regular expressions of some kilobytes each.
fn regexes(count: usize) -> String {
    let keys: Vec<String> = (0..count).map(|number| format!("\"[^x{number}]{{20}}\"")).collect();
    format!("require \"regex\";\nif header :regex \"subject\" [{}] {{ stop; }}\n", keys.join(","))
}

/// Ten bytes of a script may make 256 KiB: without a bound, a script of 256 KiB takes gigabytes.
#[test]
fn a_script_has_few_regular_expressions() {
    let capabilities = Capabilities::default();
    let most = capabilities.limits.regexes_max;
    let full = Script::compile(&regexes(most), &capabilities).expect("as many as there may be");
    assert_eq!(full.regex_bytes_max(), most * capabilities.limits.regex_bytes_max);
    assert!(full.regex_bytes_max() <= 8 << 20);
    let said = Script::compile(&regexes(most + 1), &capabilities).expect_err("too many").to_string();
    assert!(said.contains("more than 32 regular expressions: use fewer"), "{said}");
    // The error is reported once for any number, and only the allowed number is compiled.
    let errors = Script::compile(&regexes(10_000), &capabilities).expect_err("too many").to_string();
    assert_eq!(errors.matches("regular expressions").count(), 1, "{errors}");
}

#[test]
fn a_script_without_them_counts_its_text_alone() {
    let script = Script::compile("keep;", &Capabilities::default()).expect("a script");
    assert_eq!(script.regex_bytes_max(), 0);
}
