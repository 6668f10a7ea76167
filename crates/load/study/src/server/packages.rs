//! Debian's packages unpacked beside the system, for servers that cannot be installed beside each
//! other. Nothing of the system changes.

use std::path::Path;
use std::process::{Command, Stdio};

use super::process::output;

/// A server's packages.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The package that would be installed.
    pub name: &'a str,
    /// The start of the names of the server's own packages.
    pub kind: &'a str,
    /// Further packages.
    pub beside: &'a [&'a str],
}

/// Gets the packages that installing the wanted one would bring and that its programs are linked
/// with, and unpacks them below `root`. The packages stay in the folder above it.
///
/// # Errors
/// A command that failed: its output.
pub fn unpack(wanted: Wanted, root: &Path) -> Result<(), String> {
    std::fs::create_dir_all(root).map_err(|e| format!("{}: {e}", root.display()))?;
    let packages = root.parent().unwrap_or(root);
    let would = output(&["apt-get", "-s", "install", "--no-install-recommends", wanted.name])?;
    let mut names = needed(&would, wanted.kind);
    if !names.contains(&wanted.name) {
        return Err(format!("apt-get does not find {}: run apt-get update", wanted.name));
    }
    names.extend(wanted.beside);
    // A user of its own would have to be let into this folder.
    let done = Command::new("apt-get")
        .args(["-qq", "-o", "APT::Sandbox::User=root", "download"])
        .args(&names)
        .current_dir(packages)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).trim().to_owned());
    }
    for entry in std::fs::read_dir(packages).map_err(|e| e.to_string())?.flatten() {
        let package = entry.path();
        if package.extension().is_some_and(|e| e == "deb") {
            output(&["dpkg", "-x", &package.display().to_string(), &root.display().to_string()])?;
        }
    }
    Ok(())
}

/// The packages of this kind, and libraries, that `apt-get -s install` would install. Packages
/// that are only brought up to date stay as they are, unless they are of this kind.
fn needed<'a>(simulation: &'a str, kind: &str) -> Vec<&'a str> {
    simulation
        .lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_once(' '))
        .filter(|(name, rest)| name.starts_with(kind) || (name.starts_with("lib") && !rest.starts_with('[')))
        .map(|(name, _)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_new_libraries_are_needed_and_nothing_else() {
        let said = "Remv dovecot-imapd [1:2.3.19]\nInst exim4-base (4.96-15)\nInst libpcre3 (2:8.39-15)\n\
                    Inst libgnutls30 [3.7.9-2] (3.7.9-3)\nInst cyrus-common (3.6.1)\nInst cyrus-imapd (3.6.1)\n\
                    Conf libpcre3 (2:8.39-15)\n";
        assert_eq!(needed(said, "cyrus-"), ["libpcre3", "cyrus-common", "cyrus-imapd"]);
        assert_eq!(needed("Inst courier-imap [1] (2)\n", "courier-"), ["courier-imap"]);
    }
}
