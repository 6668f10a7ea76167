//! `posthaste report`: figures about all accounts at once, for an administrator.

mod cost;
mod curve;
mod folders;
mod served;

use crate::cli;
use crate::config::Config;
use crate::failure::Result;

pub async fn run(config: Config, command: cli::Report) -> Result<()> {
    match command {
        cli::Report::Folders { account, top, cut, json } => {
            folders::run(config, folders::FolderOptions { account, top, cut, json }).await
        }
        cli::Report::Cost { by, top, account, cut, json } => {
            cost::run(&config, cost::CostOptions { by, top, account, cut, json }).await
        }
    }
}
