//! Where processes are: what the launcher knows of it.

/// Says on which nodes processes are: those from a number on, as many as there are by now. [`u32::MAX`] is no node: the process belongs
/// to another launcher.
pub type AskNodes = Box<dyn FnMut(u32) -> Vec<u32> + Send>;

/// Where a process is, as seen by another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// On the same node.
    Here,
    /// On another node of the same launcher.
    Node(u32),
    /// It belongs to another launcher, which alone knows.
    Foreign,
}

/// The nodes of the processes of this launcher.
pub struct Nodes {
    own: u32,
    /// By process number; those of other launchers have none.
    of: Vec<Option<u32>>,
    ask: AskNodes,
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("own", &self.own).field("of", &self.of).finish_non_exhaustive()
    }
}

impl Nodes {
    /// Of a process on node `own`. `ask` is called when a number is not known yet.
    pub fn new(own: u32, ask: AskNodes) -> Nodes {
        Nodes { own, of: Vec::new(), ask }
    }

    /// The node of a process, if it is one of this launcher's.
    pub(crate) fn node(&mut self, peer: u32) -> Option<u32> {
        let at = peer as usize;
        if at >= self.of.len() {
            self.learn(at);
        }
        self.of[at]
    }

    /// Where a process is.
    pub(super) fn place(&mut self, peer: u32) -> Place {
        match self.node(peer) {
            None => Place::Foreign,
            Some(node) if node == self.own => Place::Here,
            Some(node) => Place::Node(node),
        }
    }

    #[cold]
    fn learn(&mut self, at: usize) {
        let known = u32::try_from(self.of.len()).unwrap_or(u32::MAX);
        self.of.extend((self.ask)(known).into_iter().map(|node| Some(node).filter(|node| *node != u32::MAX)));
        // A process keeps its number for good: those of which nothing was said belong to other launchers.
        if at >= self.of.len() {
            self.of.resize(at + 1, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_number_and_no_node_belongs_to_another_launcher() {
        let mut told = vec![vec![1, 0, 1], vec![0, u32::MAX]].into_iter();
        let mut nodes = Nodes::new(1, Box::new(move |_| told.next().unwrap_or_default()));
        assert_eq!([0, 1, 2].map(|peer| nodes.place(peer)), [Place::Here, Place::Node(0), Place::Here]);
        assert_eq!(
            (nodes.place(5), nodes.place(3), nodes.place(4)),
            (Place::Foreign, Place::Node(0), Place::Foreign)
        );
        assert_eq!((nodes.node(3), nodes.node(9)), (Some(0), None));
    }
}
