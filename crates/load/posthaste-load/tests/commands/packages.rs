//! `scripts/package` builds twice: the counts of the first build are in the second. Stand-ins take
//! the place of the compiler, since two real builds take half an hour.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// A server is the flags that it was built with.
const CARGO: &str = r#"
[ "$2 $3 $4" = "--profile dist --target" ]
mkdir -p "$CARGO_TARGET_DIR/$5/dist"
echo "$CARGO_ENCODED_RUSTFLAGS" | tr '\037' '\n' >"$CARGO_TARGET_DIR/$5/dist/posthaste"
echo "$*" >>"$CARGO_TARGET_DIR/$5/dist/posthaste"
"#;
/// An instrument knows the studies that there are, and leaves counts where the server's flags say.
const INSTRUMENT: &str = r#"
[ -e "crates/load/study/studies/$2.toml" ]
study=$2
while [ "$1" != --posthaste ]; do shift; done
counts=$(sed -n 's/^-Cprofile-generate=//p' "$2")
mkdir -p "$counts"
echo "counts of $study" >"$counts/$study.profraw"
"#;
const RUSTC: &str = r#"case "$1" in -vV) echo "host: of-tests" ;; *) echo /nowhere ;; esac"#;
const PROFDATA: &str = r#"
case "$1" in
  merge) [ "$2 $3" = "-sparse -o" ]; out=$4; shift 4; cat "$@" >"$out" ;;
  show) echo "Functions shown: $(grep -c '^counts of' "$3")" ;;
esac
"#;

/// Runs the script in a folder with these stand-ins and arguments.
fn packaged(folder: &Path, programs: &[(&str, &str)], arguments: &[&str]) -> Output {
    for (name, script) in programs {
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/bash\nset -eu\n{script}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    Command::new("bash")
        .arg(root.join("scripts/package"))
        .args(arguments)
        .current_dir(folder)
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env("LLVM_PROFDATA", folder.join("profdata"))
        .env("POSTHASTE_LOAD", "instrument")
        .env("RUSTFLAGS", "-Cdebuginfo=0")
        .output()
        .unwrap()
}

const ALL: [(&str, &str); 4] =
    [("cargo", CARGO), ("rustc", RUSTC), ("instrument", INSTRUMENT), ("profdata", PROFDATA)];

#[test]
fn the_second_build_reads_the_counts_of_the_first() {
    let folder = tempfile::Builder::new().prefix("with a space").tempdir().unwrap();
    // What an earlier run left.
    let counts = folder.path().join("target/package/counts");
    fs::create_dir_all(&counts).unwrap();
    fs::write(counts.join("old.profraw"), "old").unwrap();
    let arguments = ["--features", "cluster", "--out", "server"];
    let done = packaged(folder.path(), &ALL, &arguments);
    assert!(done.status.success(), "{done:?}");
    let server = fs::read_to_string(folder.path().join("server")).unwrap();
    assert!(server.starts_with("-Cdebuginfo=0\n") && server.ends_with("--features cluster\n"), "{server}");
    let counts = server.lines().find_map(|flag| flag.strip_prefix("-Cprofile-use=")).expect("the flag");
    let counts = fs::read_to_string(counts).unwrap();
    assert_eq!(counts, "counts of compare\ncounts of operations\ncounts of pop3\n");
}

#[test]
fn what_is_missing_is_named_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    for (programs, arguments, named) in [
        (&ALL[..3], &[][..], "apt-get install llvm-19"),
        (&ALL[..], &["--out", "absent/server"][..], "there is no folder"),
        (&ALL[..], &["--out", "folder"][..], "is a folder"),
        (&ALL[..], &["--quick"][..], "no option is called --quick"),
    ] {
        let done = packaged(folder.path(), programs, arguments);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains(named), "{said}");
        assert!(!folder.path().join("target/package/build").exists());
    }
}

/// Other commands of the server leave counts, too.
#[test]
fn counts_without_those_of_a_server_make_no_package() {
    let folder = tempfile::tempdir().unwrap();
    let instrument = INSTRUMENT.replace("counts of", "no server:");
    let done = packaged(folder.path(), &[ALL[0], ALL[1], ("instrument", &instrument), ALL[3]], &[]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("no server left its counts"), "{said}");
    assert!(!folder.path().join("target/package/posthaste").exists());
}
