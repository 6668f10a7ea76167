//! `posthaste engine`: preparing a cluster for mail, and for the next version.

use crate::cli::Engine;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open;

pub async fn run(config: Config, command: Engine) -> Result<()> {
    let Some(cluster) = open::cluster(&config)? else {
        return Err(Failure::Usage(
            "the embedded engine needs no preparation; name a cluster with --engine".into(),
        ));
    };
    match command {
        Engine::Init { replicas } => {
            cluster.init(replicas).await?;
            println!("{cluster:?} is ready for mail");
            for advice in cluster.advice().await? {
                println!("warning: {advice}");
            }
        }
        Engine::Upgrade => match cluster.upgrade().await? {
            (had, has) if had == has => println!("{cluster:?} has version {has} already"),
            (had, has) => println!("{cluster:?} was upgraded from version {had} to {has}"),
        },
    }
    Ok(())
}
