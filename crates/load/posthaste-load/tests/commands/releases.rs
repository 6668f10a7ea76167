//! `scripts/regress` records the verdict on a release, and nothing where there is none.
//! `scripts/study` records the reports of complete studies.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// An instrument that finds this: it makes its folder, prints the lines, and exits. Asked for a
/// report, it writes one.
fn instrument(folder: &Path, lines: &str, code: u8) -> String {
    let script = format!(
        "if [ \"$1\" = report ]; then echo page >\"$2/short.html\"; exit; fi\n\
         while [ $# -gt 1 ]; do [ \"$1\" != --out ] || mkdir -p \"$2\"; shift; done\n\
         cat <<'END'\n{lines}\nEND\nexit {code}\n"
    );
    let file = folder.join("instrument");
    fs::write(&file, script).unwrap();
    format!("bash {}", file.display())
}

/// Runs the script on two empty files as builds. What it did, the lines that the table got, and the
/// number of reports beside it.
fn recorded(lines: &str, code: u8) -> (Output, String, usize) {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let builds = ["posthaste-1", "posthaste-2"].map(|name| folder.path().join(name));
    builds.iter().for_each(|build| fs::write(build, "").unwrap());
    let before = fs::read_to_string(root.join("docs/figures/releases.md")).unwrap();
    fs::write(folder.path().join("releases.md"), &before).unwrap();
    let done = Command::new("bash")
        .arg(root.join("scripts/regress"))
        .arg("--out")
        .arg(folder.path().join("out"))
        .arg("--figures")
        .arg(folder.path())
        .args(&builds)
        .env("POSTHASTE_LOAD", instrument(folder.path(), lines, code))
        .env("CARGO_TARGET_DIR", folder.path().join("target"))
        .output()
        .unwrap();
    let table = fs::read_to_string(folder.path().join("releases.md")).unwrap();
    let names = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    let reports = names.filter(|name| name.to_string_lossy().ends_with(".html")).count();
    (done, table.strip_prefix(&before).unwrap().to_owned(), reports)
}

#[test]
fn the_verdict_is_recorded_with_its_findings_and_its_report() {
    let lines = "browse: new costs the same\nsync: new costs 9 % more\nreport: x\nWORSE: b costs more";
    let (done, row, reports) = recorded(lines, 1);
    assert_eq!((done.status.code(), reports), (Some(1), 1), "{done:?}");
    assert!(row.contains("| posthaste-1 |") && row.contains("| worse |"), "{row}");
    assert!(
        row.contains("| browse: new costs the same; sync: new costs 9 % more | [report](regress-"),
        "{row}"
    );
    assert!(row.ends_with(".html) |\n") && row.lines().count() == 1, "{row}");
    let (done, row, _) = recorded("browse: not decided\nreport: x\nNOT DECIDED: more rounds", 3);
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    assert!(row.contains("| not decided |"), "{row}");
}

#[test]
fn a_comparison_without_a_verdict_is_not_recorded() {
    let (done, row, reports) = recorded("browse: too few rounds were measured on both\nreport: x", 1);
    assert_eq!((done.status.code(), row.as_str(), reports), (Some(1), "", 0), "{done:?}");
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("there is no verdict, so nothing is recorded"), "{said}");
}

#[test]
fn the_script_for_studies_names_the_one_for_two_builds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let done = Command::new("bash").arg(root.join("scripts/study")).arg("regress").output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    // Before anything is installed or built.
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("scripts/regress --quick"), "{said}");
}

/// Runs `scripts/study` with these words. The instrument writes what it is asked for, and its
/// studies end with this exit code. What the script did, and the reports that were recorded.
fn studied(words: &[&str], code: u8) -> (Output, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let figures = folder.path().join("figures");
    fs::create_dir(&figures).unwrap();
    let script = format!(
        "is_report=no; [ \"$1\" != report ] || is_report=yes\n\
         case \" $* \" in *' --plan '*) exit ;; esac\n\
         while [ $# -gt 1 ]; do\n\
         if [ \"$1\" = --out ]; then\n\
         if [ $is_report = yes ]; then echo page >\"$2\"; else mkdir -p \"$2\"; fi\n\
         fi; shift; done\n\
         [ $is_report = yes ] || exit {code}\n"
    );
    let instrument = folder.path().join("instrument");
    fs::write(&instrument, script).unwrap();
    let done = Command::new("bash")
        .arg(root.join("scripts/study"))
        .args(words)
        .args(["--figures", figures.to_str().unwrap(), "koka"])
        .env("POSTHASTE_LOAD", format!("bash {}", instrument.display()))
        // No other server is looked for, or installed.
        .env("PEERS", "")
        .env("OUT", folder.path().join("out"))
        .output()
        .unwrap();
    let names = fs::read_dir(&figures).unwrap().flatten().map(|entry| entry.file_name());
    (done, names.map(|name| name.into_string().unwrap()).collect())
}

#[test]
fn a_complete_study_of_full_length_is_recorded() {
    let (done, recorded) = studied(&["--full", "--rounds", "1"], 0);
    assert_eq!((done.status.code(), &recorded[..]), (Some(0), &["koka.html".to_owned()][..]), "{done:?}");
    // How long it took.
    let said = String::from_utf8(done.stdout).unwrap();
    let time = said.lines().find_map(|line| line.strip_prefix("study: koka took ")).unwrap_or_default();
    assert!(time.ends_with(" s") && time.contains(" min "), "{said}");
}

#[test]
fn a_short_study_and_one_with_errors_are_not_recorded() {
    let (done, recorded) = studied(&[], 0);
    assert_eq!((done.status.code(), recorded.len()), (Some(2), 0), "{done:?}");
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("add --full"), "{said}");
    // Errors at a point, and a study that is not finished.
    for code in [1, 3] {
        let (done, recorded) = studied(&["--full"], code);
        assert_eq!((done.status.code(), recorded.len()), (Some(i32::from(code)), 0), "{done:?}");
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(said.contains("koka is not recorded"), "{said}");
    }
}
