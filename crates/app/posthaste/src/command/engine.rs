//! `posthaste engine`: preparing a cluster for mail.

use crate::cli::Engine;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open;

pub async fn run(config: Config, command: Engine) -> Result<()> {
    let Engine::Init { replicas } = command;
    let Some(cluster) = open::cluster(&config)? else {
        return Err(Failure::Usage("the embedded engine makes itself; name a cluster with --engine".into()));
    };
    posthaste_store_cassandra::init(&cluster, replicas).await?;
    println!("{} is ready for mail", config.engine);
    Ok(())
}
