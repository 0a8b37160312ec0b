//! The kernels of reductions that the program has used.

use oxmpi_abi::types::{Datatype, Op as OpHandle};
use oxmpi_mem::kernels::Kernel;
use std::sync::OnceLock;

/// A cache of kernels for predefined operations on predefined datatypes. A program uses few
/// kernels, so entries are never replaced.
#[derive(Default)]
pub(crate) struct Kernels([OnceLock<(OpHandle, Datatype, Kernel)>; 16]);

impl Kernels {
    #[inline(always)]
    pub(crate) fn slot(
        &self,
        op: OpHandle,
        datatype: Datatype,
    ) -> &OnceLock<(OpHandle, Datatype, Kernel)> {
        // Programs often use neighbouring handles, which must get different entries.
        &self.0[(op.wrapping_mul(5) ^ datatype) % self.0.len()]
    }

    /// The kernel of a predefined operation on a predefined datatype, if cached.
    #[inline(always)]
    pub(crate) fn known(&self, op: OpHandle, datatype: Datatype) -> Option<&Kernel> {
        match self.slot(op, datatype).get() {
            Some((of, on, kernel)) if *of == op && *on == datatype => Some(kernel),
            _ => None,
        }
    }
}
