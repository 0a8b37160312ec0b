//! Copies of buffers that are in the memory of a device, for calls that need them in memory of this process: kernels and functions of the
//! program combine there, and a tree of messages would read and write the device again and again.

use crate::memory::{Area, BlockList, Memory};
use crate::run::CollError;
use oxmpi_engine::Fault;
use oxmpi_mem::buffer::UserBuf;

/// The buffers of a call on a device, and their twins here, on which the call works.
#[derive(Debug)]
pub struct Staging {
    input: Option<Twins>,
    output: Option<Twins>,
}

/// Each buffer of an area with what stands for it.
#[derive(Debug)]
struct Twins(Vec<(UserBuf, UserBuf)>);

impl Staging {
    /// Has a call work on twins of what is on a device, without their data. `None`: nothing of it is.
    ///
    /// # Errors
    /// There is no room.
    pub fn of(memory: &mut Memory) -> Result<Option<Staging>, CollError> {
        if !memory.input.is_on_device() && !memory.output.is_on_device() {
            return Ok(None);
        }
        let (input, output) = (Twins::replace(&mut memory.input)?, Twins::replace(&mut memory.output)?);
        Ok(Some(Staging { input, output }))
    }

    /// Copies the data to the twins: when the call begins. The output counts as well, since it may be an input, and have parts that the
    /// call does not write.
    ///
    /// # Errors
    /// The driver's.
    pub fn copy_in(&self) -> Result<(), CollError> {
        for (device, here) in self.input.iter().chain(&self.output).flat_map(|twins| &twins.0) {
            device.renew();
            here.copy_from(0, device, 0, device.packed_len());
            device.settle().map_err(Fault::from)?;
        }
        Ok(())
    }

    /// Copies the results to the device: when the call is over.
    ///
    /// # Errors
    /// The driver's.
    pub fn copy_out(&self) -> Result<(), CollError> {
        for (device, here) in self.output.iter().flat_map(|twins| &twins.0) {
            device.copy_from(0, here, 0, device.packed_len());
            device.settle().map_err(Fault::from)?;
        }
        Ok(())
    }
}

impl Twins {
    fn replace(area: &mut Area) -> Result<Option<Twins>, CollError> {
        if !area.is_on_device() {
            return Ok(None);
        }
        let mut twins = Vec::new();
        let mut here = |buffer: &UserBuf| match buffer.twin()? {
            None => Ok::<_, CollError>(buffer.clone()),
            Some(twin) => {
                twins.push((buffer.clone(), twin.clone()));
                Ok(twin)
            }
        };
        *area = match area {
            Area::Whole(buffer) => Area::Whole(here(buffer)?),
            Area::Blocks(list) => {
                Area::Blocks(BlockList::new(list.buffers().map(here).collect::<Result<Vec<_>, _>>()?))
            }
        };
        Ok(Some(Twins(twins)))
    }
}
