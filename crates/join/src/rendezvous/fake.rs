//! A MUNGE of tests, with the rules of the real one: a credential names its maker's user, processes
//! of another user cannot open a restricted one, and each node opens a credential once.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::credential::Credentials;
use crate::munge::{CredentialTimes, MungeError, Opened};

#[derive(Debug, Default)]
struct FakeCluster {
    made: HashMap<String, (Opened, u32)>,
    opened: HashSet<(u32, String)>,
    /// What [`Credentials::open`] says of a credential of this node.
    failing: HashMap<u32, MungeError>,
}

/// A process of a node and a user.
#[derive(Clone, Debug)]
pub(super) struct FakeMunge {
    cluster: Rc<RefCell<FakeCluster>>,
    node: u32,
    uid: u32,
}

impl FakeMunge {
    pub(super) fn new() -> FakeMunge {
        FakeMunge { cluster: Rc::default(), node: 0, uid: 1000 }
    }

    pub(super) fn on(&self, node: u32) -> FakeMunge {
        FakeMunge { node, ..self.clone() }
    }

    pub(super) fn of_user(&self, uid: u32) -> FakeMunge {
        FakeMunge { uid, ..self.clone() }
    }

    /// A credential that processes of the user `only` can open.
    pub(super) fn make_for(&self, only: u32, payload: &[u8]) -> String {
        let mut cluster = self.cluster.borrow_mut();
        let text = format!("FAKE:{}:{}:", self.node, cluster.made.len());
        let payload = payload.to_vec();
        let opened = Opened { payload, uid: self.uid, gid: 0, made: 0, opened: 0 };
        cluster.made.insert(text.clone(), (opened, only));
        text
    }

    /// From now on credentials of this node cannot be opened.
    pub(super) fn fail(&self, error: Option<MungeError>) {
        let mut cluster = self.cluster.borrow_mut();
        match error {
            Some(error) => _ = cluster.failing.insert(self.node, error),
            None => _ = cluster.failing.remove(&self.node),
        }
    }

    pub(super) fn times(&self) -> CredentialTimes {
        CredentialTimes { uid: self.uid, made: 1000, opened: 5000 }
    }
}

impl Credentials for FakeMunge {
    fn make(&self, payload: &[u8]) -> Result<String, MungeError> {
        Ok(self.make_for(self.uid, payload))
    }

    fn open(&self, credential: &str) -> Result<Opened, MungeError> {
        let mut cluster = self.cluster.borrow_mut();
        let maker = credential.split(':').nth(1).and_then(|node| node.parse().ok());
        if let Some(error) = maker.and_then(|maker: u32| cluster.failing.get(&maker)) {
            return Err(error.clone());
        }
        let Some((opened, only)) = cluster.made.get(credential).cloned() else {
            return Err(MungeError::Invalid("invented".into()));
        };
        if only != self.uid {
            return Err(MungeError::Unauthorized);
        }
        match cluster.opened.insert((self.node, credential.to_string())) {
            true => Ok(opened),
            false => Err(MungeError::Replayed),
        }
    }

    fn uid(&self) -> u32 {
        self.uid
    }
}
