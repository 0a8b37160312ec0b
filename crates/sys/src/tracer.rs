//! Who may read this process's memory where Yama guards it.
//!
//! Yama, a security module that most distributions switch on (`/proc/sys/kernel/yama/ptrace_scope` is 1), lets a process read the
//! memory of its descendants alone (process_vm_readv(2) needs the rights of ptrace(2)). Ranks are siblings, so they might not
//! read each other's. With PR_SET_PTRACER a process names one other that may, and with it all descendants of that one: the one that
//! has started all ranks of a node, so that each of them may read each other, and nobody else who might not before.

/// Lets the process of this number, and its descendants, read the memory of the caller. It comes in place of an earlier one.
///
/// A kernel without Yama refuses, and needs none of it; so does one for which there is no such process. Either way, whether
/// one process may read another is found out by a read ([`crate::single_copy::RemoteProcess::probe`]), not by what this has done.
pub fn let_descendants_read(pid: u32) {
    // SAFETY: the call takes numbers alone, and changes who may trace this process.
    let _ = unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(pid), 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_this_process_nor_one_that_is_not_there_is_an_error() {
        let_descendants_read(std::process::id());
        let_descendants_read(u32::MAX >> 1);
    }
}
