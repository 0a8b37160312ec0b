//! Communicator calls of a simulated rank.

use super::{Doing, Rank};
use crate::Communicator;
use crate::comm::{IntercommCreate, Peer, Split};
use oxmpi_engine::RequestId;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_plan::Collective;
use std::sync::{Arc, Mutex, PoisonError};

impl Rank {
    async fn ended(&self, request: RequestId, doing: Collective) -> Result<()> {
        self.note(request, Doing::Collective(doing));
        self.wait(request).await.map(drop)
    }

    /// MPI_Comm_dup.
    pub async fn dup(&self, comm: &Communicator) -> Result<Communicator> {
        let dup = self.process().start_dup(comm)?;
        self.ended(dup.request, Collective::Bcast).await?;
        Ok(self.process().finish_dup(comm, &dup))
    }

    /// MPI_Comm_idup, where progress makes the communicator.
    pub async fn idup(&self, comm: &Communicator) -> Result<Communicator> {
        let place = Arc::new(Mutex::new(None));
        let delivered = place.clone();
        let request = self.process().idup(comm, None, move |made| {
            delivered.lock().unwrap_or_else(PoisonError::into_inner).replace(made);
        })?;
        self.ended(request, Collective::Bcast).await?;
        let made = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        made.ok_or_else(|| {
            MpiError::new(oxmpi_abi::constants::MPI_ERR_INTERN, "nothing was delivered")
        })
    }

    async fn ended_split(&self, comm: &Communicator, split: Split) -> Result<Option<Communicator>> {
        self.ended(split.request, Collective::Allgather).await?;
        self.process().finish_split(comm, split)
    }

    /// MPI_Comm_split.
    pub async fn split(
        &self,
        comm: &Communicator,
        color: i32,
        key: i32,
    ) -> Result<Option<Communicator>> {
        self.ended_split(comm, self.process().start_split(comm, color, key)?).await
    }

    /// MPI_Comm_split_type.
    pub async fn split_type(
        &self,
        comm: &Communicator,
        split_type: i32,
        key: i32,
    ) -> Result<Option<Communicator>> {
        self.ended_split(comm, self.process().start_split_type(comm, split_type, key, None)?).await
    }

    /// MPI_Comm_create.
    pub async fn create(&self, comm: &Communicator, group: &Group) -> Result<Option<Communicator>> {
        self.ended_split(comm, self.process().start_create(comm, group)?).await
    }

    /// MPI_Comm_create_group.
    pub async fn create_group(
        &self,
        comm: &Communicator,
        group: &Group,
        tag: i32,
    ) -> Result<Option<Communicator>> {
        let Some(made) = self.process().start_create_group(comm, group, tag)? else {
            return Ok(None);
        };
        self.ended(made.request, Collective::Bcast).await?;
        Ok(Some(self.process().finish_create_group(comm, made)))
    }

    /// MPI_Intercomm_create; [`IntercommCreate::new`] describes `peer`.
    pub async fn intercomm_create(
        &self,
        local: &Communicator,
        leader: i32,
        peer: Option<Peer<'_>>,
    ) -> Result<Communicator> {
        let mut making = IntercommCreate::new(local, leader, Ok(peer))?;
        let mut last = Ok(());
        while let Some(request) = making.step(self.process(), last)? {
            last = self.ended(request, Collective::Bcast).await;
        }
        Ok(making.finish(self.process()))
    }

    /// MPI_Intercomm_merge.
    pub async fn merge(&self, comm: &Communicator, high: bool) -> Result<Communicator> {
        let merge = self.process().start_merge(comm, high)?;
        self.ended(merge.request, Collective::Allgather).await?;
        self.process().finish_merge(comm, merge)
    }
}
