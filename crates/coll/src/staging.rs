//! Copies of device buffers in host memory, where kernels and functions of the program combine; the
//! messages of a tree would access the device again and again.

use crate::memory::{Area, BlockList, Memory};
use crate::run::CollError;
use oxmpi_engine::Fault;
use oxmpi_mem::buffer::UserBuf;

/// The device buffers of a call, with the copies on which the call works.
#[derive(Debug)]
pub struct Staging {
    input: Option<Twins>,
    output: Option<Twins>,
}

#[derive(Debug)]
struct Twins(Vec<(UserBuf, UserBuf)>);

impl Staging {
    /// Replaces the device buffers of a call by copies without data. `None`: no buffer is in a
    /// device. Fails if there is no memory.
    pub fn of(memory: &mut Memory) -> Result<Option<Staging>, CollError> {
        if !memory.input.is_on_device() && !memory.output.is_on_device() {
            return Ok(None);
        }
        let (input, output) =
            (Twins::replace(&mut memory.input)?, Twins::replace(&mut memory.output)?);
        Ok(Some(Staging { input, output }))
    }

    /// Copies the data into the copies when the call begins; also the output, which may be an input
    /// or have parts that the call does not write. Fails with the driver's error.
    pub fn copy_in(&self) -> Result<(), CollError> {
        for (device, here) in self.input.iter().chain(&self.output).flat_map(|twins| &twins.0) {
            device.renew();
            here.copy_from(0, device, 0, device.packed_len());
            device.settle().map_err(Fault::from)?;
        }
        Ok(())
    }

    /// Copies the results to the device when the call is complete. Fails with the driver's error.
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
            Area::Blocks(list) => Area::Blocks(BlockList::new(
                list.buffers().map(here).collect::<Result<Vec<_>, _>>()?,
            )),
        };
        Ok(Some(Twins(twins)))
    }
}
