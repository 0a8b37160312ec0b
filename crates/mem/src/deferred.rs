//! Copy programs that are compiled at the first use.
//!
//! A program makes types in inner loops, and of many it only wants to know the size. So a constructor computes bounds
//! and notes how the type was made. What is one [`Run`], as a vector of a basic type is, is known without further ado;
//! everything else is a [`Deferred`] program. It is shared by all layouts that have the same data, and by the types that
//! were made of these.

use crate::layout::{LAZY_DEPTH, LayoutError, MAX_DEPTH};
use crate::program::{Program, ProgramBuilder, Run};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Where the data of an element lie.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// There are none.
    Empty,
    /// In one run.
    Run(Run),
    /// Where a program says that may not have been compiled yet.
    Deferred(Arc<Deferred>),
}

/// `count` times a pattern, the first at `offset` and each `stride` after the one before.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) count: usize,
    pub(crate) stride: isize,
    pub(crate) offset: isize,
    pub(crate) pattern: Pattern,
}

/// What a program will be compiled of.
#[derive(Debug)]
pub(crate) enum Composition {
    One(Placed),
    /// Rows of one pattern, as [`Pattern::grid`] says.
    Grid {
        rows: (usize, isize),
        row: (usize, isize),
        pattern: Pattern,
    },
    /// (Elements, offset) of one pattern, whose elements are `extent` bytes apart.
    Blocks {
        blocks: Box<[(usize, isize)]>,
        extent: isize,
        pattern: Pattern,
    },
    Several(Box<[Placed]>),
    /// It has been compiled.
    Gone,
}

/// A program, or what to compile it of.
#[derive(Debug)]
pub(crate) struct Deferred {
    program: OnceLock<Arc<Program>>,
    members: Mutex<Composition>,
    /// At most so deep do programs nest in it. It is also how deep compiling it recurses.
    depth: u32,
}

impl Placed {
    fn compile_to(&self, program: &mut ProgramBuilder) {
        self.pattern.compile_to(program, &mut None, self.count, self.stride, self.offset);
    }
}

impl Composition {
    /// The pattern of these, in which programs nest `depth` deep at most.
    fn deferred(self, depth: u32) -> Result<Pattern, LayoutError> {
        let deferred = Deferred { program: OnceLock::new(), members: Mutex::new(self), depth: depth + 1 };
        if depth >= LAZY_DEPTH && deferred.program().depth() > MAX_DEPTH {
            return Err(LayoutError::TooDeep);
        }
        Ok(Pattern::Deferred(Arc::new(deferred)))
    }

    fn compile(&self) -> Program {
        let mut program = ProgramBuilder::default();
        match self {
            Composition::One(member) => member.compile_to(&mut program),
            Composition::Grid { rows, row, pattern } => {
                let mut one = ProgramBuilder::default();
                pattern.compile_to(&mut one, &mut None, row.0, row.1, 0);
                program.repeat(&Arc::new(one.finish()), rows.0, rows.1, 0);
            }
            Composition::Blocks { blocks, extent, pattern } => {
                let mut body = None;
                for &(count, offset) in blocks {
                    pattern.compile_to(&mut program, &mut body, count, *extent, offset);
                }
            }
            Composition::Several(members) => members.iter().for_each(|m| m.compile_to(&mut program)),
            Composition::Gone => unreachable!("a copy program is compiled once"),
        }
        program.finish()
    }
}

impl Deferred {
    fn program(&self) -> &Arc<Program> {
        self.program.get_or_init(|| {
            let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
            let program = Arc::new(members.compile());
            *members = Composition::Gone;
            program
        })
    }
}

impl Pattern {
    /// `count` times this pattern, the first at `offset` and each `stride` after the one before.
    ///
    /// # Errors
    /// If it nests too deep.
    #[inline(always)]
    pub(crate) fn repeated(
        &self,
        count: usize,
        stride: isize,
        offset: isize,
    ) -> Result<Pattern, LayoutError> {
        match self {
            Pattern::Empty => Ok(Pattern::Empty),
            _ if count == 0 => Ok(Pattern::Empty),
            Pattern::Run(run) if let Some(run) = run.repeated(count, stride, offset) => Ok(Pattern::Run(run)),
            _ => self.placed(count, stride, offset),
        }
    }

    #[inline(never)]
    fn placed(&self, count: usize, stride: isize, offset: isize) -> Result<Pattern, LayoutError> {
        if count == 1 && offset == 0 {
            return Ok(self.clone());
        }
        Composition::One(Placed { count, stride, offset, pattern: self.clone() }).deferred(self.depth())
    }

    /// Rows of this pattern: how many, and the bytes from one to the next; the same of the elements in a row.
    ///
    /// # Errors
    /// If it nests too deep.
    #[inline(always)]
    pub(crate) fn grid(&self, rows: (usize, isize), row: (usize, isize)) -> Result<Pattern, LayoutError> {
        match self {
            Pattern::Empty => Ok(Pattern::Empty),
            _ if rows.0 == 0 || row.0 == 0 => Ok(Pattern::Empty),
            Pattern::Run(run) if let Some(run) = run.repeated(row.0, row.1, 0) => {
                Pattern::Run(run).repeated(rows.0, rows.1, 0)
            }
            _ if row.0 == 1 => self.placed(rows.0, rows.1, 0),
            _ => self.grid_of_programs(rows, row),
        }
    }

    #[inline(never)]
    fn grid_of_programs(&self, rows: (usize, isize), row: (usize, isize)) -> Result<Pattern, LayoutError> {
        Composition::Grid { rows, row, pattern: self.clone() }.deferred(self.depth() + 1)
    }

    /// Blocks of (elements, offset) of `pattern`, whose elements are `extent` bytes apart.
    ///
    /// # Errors
    /// If it nests too deep.
    pub(crate) fn blocks(
        mut blocks: Vec<(usize, isize)>,
        extent: isize,
        pattern: &Pattern,
    ) -> Result<Pattern, LayoutError> {
        blocks.retain(|&(count, _)| count > 0);
        match (&*blocks, pattern) {
            ([], _) | (_, Pattern::Empty) => Ok(Pattern::Empty),
            (&[(count, offset)], _) => pattern.repeated(count, extent, offset),
            _ => {
                let (blocks, pattern) = (blocks.into_boxed_slice(), pattern.clone());
                let depth = pattern.depth();
                Composition::Blocks { blocks, extent, pattern }.deferred(depth)
            }
        }
    }

    /// Each of these after the one before, in packed order.
    ///
    /// # Errors
    /// If it nests too deep.
    pub(crate) fn several(mut members: Vec<Placed>) -> Result<Pattern, LayoutError> {
        members.retain(|m| m.count > 0 && !matches!(m.pattern, Pattern::Empty));
        match &*members {
            [] => return Ok(Pattern::Empty),
            [one] => return one.pattern.repeated(one.count, one.stride, one.offset),
            _ => {}
        }
        let depth = members.iter().map(|m| m.pattern.depth()).max().unwrap_or(0);
        Composition::Several(members.into_boxed_slice()).deferred(depth)
    }

    /// At most so deep do programs nest in it.
    fn depth(&self) -> u32 {
        match self {
            Pattern::Empty | Pattern::Run(_) => 0,
            Pattern::Deferred(deferred) => deferred.program.get().map_or(deferred.depth, |p| p.depth()),
        }
    }

    /// Its program, compiled now if it is the first use.
    pub(crate) fn program(&self) -> Arc<Program> {
        match self {
            Pattern::Empty => Arc::default(),
            Pattern::Run(run) => Arc::new(Program::of_run(*run)),
            Pattern::Deferred(deferred) => Arc::clone(deferred.program()),
        }
    }

    /// Whether nothing of it waits for the first use.
    pub(crate) fn is_compiled(&self) -> bool {
        match self {
            Pattern::Empty | Pattern::Run(_) => true,
            Pattern::Deferred(deferred) => deferred.program.get().is_some(),
        }
    }

    /// Appends it `count` times to a program. `body` is its own program, if it had to be made.
    fn compile_to(
        &self,
        program: &mut ProgramBuilder,
        body: &mut Option<Arc<Program>>,
        count: usize,
        stride: isize,
        offset: isize,
    ) {
        if let Pattern::Run(run) = self
            && program.repeat_run(run, count, stride, offset)
        {
            return;
        }
        program.repeat(body.get_or_insert_with(|| self.program()), count, stride, offset);
    }
}
