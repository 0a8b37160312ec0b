/// Requests the nodes of all processes from this number on; [`u32::MAX`]: a process of another
/// launcher.
pub type AskNodes = Box<dyn FnMut(u32) -> Vec<u32> + Send>;

/// The node of a process, as seen by another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerNode {
    Here,
    Node(u32),
    /// The process belongs to another launcher, and its node is unknown.
    Foreign,
}

/// The nodes of the processes of this launcher.
pub struct Nodes {
    own: u32,
    /// By rank; `None` for processes of other launchers.
    of: Vec<Option<u32>>,
    ask: AskNodes,
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes")
            .field("own", &self.own)
            .field("of", &self.of)
            .finish_non_exhaustive()
    }
}

impl Nodes {
    /// For a process on node `own`. `ask` is called for an unknown number.
    pub fn new(own: u32, ask: AskNodes) -> Nodes {
        Nodes { own, of: Vec::new(), ask }
    }

    pub(crate) fn node(&mut self, peer: u32) -> Option<u32> {
        let at = peer as usize;
        if at >= self.of.len() {
            self.learn(at);
        }
        self.of[at]
    }

    pub(super) fn place(&mut self, peer: u32) -> PeerNode {
        match self.node(peer) {
            None => PeerNode::Foreign,
            Some(node) if node == self.own => PeerNode::Here,
            Some(node) => PeerNode::Node(node),
        }
    }

    #[cold]
    fn learn(&mut self, at: usize) {
        // An agent answers for the first job alone, and the next request goes to the head.
        while at >= self.of.len() {
            let known = u32::try_from(self.of.len()).unwrap_or(u32::MAX);
            let more = (self.ask)(known);
            if more.is_empty() {
                break;
            }
            self.of.extend(more.into_iter().map(|node| Some(node).filter(|of| *of != u32::MAX)));
        }
        // A number that the launcher does not report belongs to another launcher forever.
        if at >= self.of.len() {
            self.of.resize(at + 1, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_node_belongs_to_another_launcher() {
        let mut answers = vec![vec![1], vec![0, 1], vec![0, u32::MAX]].into_iter();
        let mut nodes = Nodes::new(1, Box::new(move |_| answers.next().unwrap_or_default()));
        assert_eq!(
            [2, 1, 0].map(|peer| nodes.place(peer)),
            [PeerNode::Here, PeerNode::Node(0), PeerNode::Here]
        );
        assert_eq!(
            (nodes.place(5), nodes.place(3), nodes.place(4)),
            (PeerNode::Foreign, PeerNode::Node(0), PeerNode::Foreign)
        );
        assert_eq!((nodes.node(3), nodes.node(9)), (Some(0), None));
    }
}
