//! Whether a study that sweeps nodes can begin: a Cassandra that answers, a program that has that
//! engine, and running servers with enough nodes. A missing part is named with its remedy.

use std::path::Path;

use super::ServerChoice;
use super::cassandra::Cassandra;
use super::cluster::no_nodes;
use super::posthaste::program;
use super::process::output;

/// Checks the servers of a study that sweeps up to `most` nodes.
///
/// # Errors
/// What is missing, and the remedy.
pub fn ready(
    servers: &[ServerChoice],
    most: u32,
    cassandra: &Cassandra,
    posthaste: Option<&Path>,
) -> Result<(), String> {
    let mut starts = false;
    for which in servers {
        match which {
            ServerChoice::Posthaste => {
                has_the_engine(&program(posthaste)?)?;
                starts = true;
            }
            ServerChoice::Build(build) => {
                has_the_engine(&build.program)?;
                starts = true;
            }
            ServerChoice::Running(running) => {
                has_nodes(&running.name, running.nodes.len() + 1, most)?;
                let watched = running.watched();
                let count = watched.iter().filter(|watched| watched.is_something()).count();
                has_processes(&running.name, count, running.nodes.len() + 1)?;
            }
            other => return Err(no_nodes(other.name())),
        }
    }
    match starts {
        true => cassandra.place()?.reach(),
        false => Ok(()),
    }
}

/// Whether a Posthaste was built with the engine on Cassandra. Its version names the engines.
fn has_the_engine(program: &Path) -> Result<(), String> {
    let binary = program.display().to_string();
    names_the_engine(&binary, &output(&[&binary, "--version"])?)
}

fn names_the_engine(binary: &str, version: &str) -> Result<(), String> {
    match version.contains("cassandra") {
        true => Ok(()),
        false => Err(format!(
            "{binary} was built without the engine on Cassandra ({version}): build it by `cargo build --release \
             --features cluster`, or name another by --posthaste"
        )),
    }
}

fn has_nodes(name: &str, has: usize, most: u32) -> Result<(), String> {
    match has >= most as usize {
        true => Ok(()),
        false => Err(format!(
            "the study sweeps up to {most} nodes, and {name} has {has}: add the addresses of more nodes, imap://NODE:PORT"
        )),
    }
}

fn has_processes(name: &str, watched: usize, nodes: usize) -> Result<(), String> {
    match watched == 0 || watched == nodes {
        true => Ok(()),
        false => Err(format!(
            "{name} has {nodes} nodes, and the processes of {watched}: name agent=HOST:PORT (or pid=N) for each, in the \
             order of the nodes"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(server: &str, cassandra: &Cassandra) -> String {
        let which: ServerChoice = server.parse().unwrap();
        ready(&[which], 3, cassandra, None).unwrap_err()
    }

    #[test]
    fn a_server_without_nodes_is_refused_with_the_remedy() {
        let none = Cassandra::default();
        assert!(refused("dovecot", &none).contains("Dovecot has no nodes to sweep"));
        let two = refused("x=imap://a,imap://b", &none);
        assert!(two.contains("up to 3 nodes, and x has 2") && two.contains("imap://NODE:PORT"), "{two}");
        let one = refused("x=imap://a,imap://b,imap://c,agent=a:9", &none);
        assert!(one.contains("x has 3 nodes, and the processes of 1"), "{one}");
        for fits in ["x=imap://a,imap://b,imap://c", "x=imap://a,imap://b,imap://c,pid=1,pid=2,pid=3"] {
            assert_eq!(ready(&[fits.parse().unwrap()], 3, &none, None), Ok(()), "{fits}");
        }
    }

    #[test]
    fn a_program_without_the_engine_is_refused_with_the_remedy() {
        // A program that has a version, and no engine.
        let said = refused("new=/bin/true", &Cassandra::default());
        assert!(
            said.starts_with("/bin/true was built without") && said.contains("--features cluster"),
            "{said}"
        );
        let said = |version: &str| names_the_engine("posthaste", version);
        assert!(said("posthaste 0.1.0 (engines: embedded)").unwrap_err().contains("(engines: embedded)"));
        assert_eq!(said("posthaste 0.1.0 (engines: embedded, cassandra)"), Ok(()));
    }
}
