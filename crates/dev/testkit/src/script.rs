//! Programs that a test writes and then starts.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program for `/bin/sh`. It can be started at once.
///
/// Another process writes the file. If this one did, a child that another thread starts meanwhile
/// would hold the open file for a moment. The system refuses to start a file that is open for
/// writing.
pub fn script(path: &Path, commands: &str) {
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let mut input = writer.stdin.take().expect("piped");
    input.write_all(format!("#!/bin/sh\n{commands}\n").as_bytes()).expect("the shell reads");
    drop(input);
    let status = writer.wait().expect("a child to wait for");
    assert!(status.success(), "{} cannot be written", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_start_while_other_threads_start_programs() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let dir = dir.path();
                scope.spawn(move || {
                    for round in 0..25 {
                        let path = dir.join(format!("{thread}-{round}"));
                        script(&path, "exit 7");
                        assert_eq!(Command::new(&path).status().unwrap().code(), Some(7));
                    }
                });
            }
        });
    }
}
