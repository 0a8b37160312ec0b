! ranks: 1
! Lower bounds, extents and true extents.
program bounds
  use mpi_f08
  implicit none
  integer(MPI_ADDRESS_KIND) :: lb, extent
  integer(MPI_COUNT_KIND) :: size_x, lb_x, extent_x
  type(MPI_Datatype) :: gap, shifted
  integer :: n
  call MPI_Init()
  call MPI_Type_create_hindexed(2, [1, 1], [8_MPI_ADDRESS_KIND, 24_MPI_ADDRESS_KIND], &
                                MPI_DOUBLE_PRECISION, gap)
  call MPI_Type_get_extent(gap, lb, extent)
  if (lb /= 8 .or. extent /= 24) error stop 'the extent'
  call MPI_Type_create_resized(gap, -16_MPI_ADDRESS_KIND, 64_MPI_ADDRESS_KIND, shifted)
  call MPI_Type_get_extent(shifted, lb, extent)
  if (lb /= -16 .or. extent /= 64) error stop 'the new extent'
  call MPI_Type_get_true_extent(shifted, lb, extent)
  if (lb /= 8 .or. extent /= 24) error stop 'the true extent'
  call MPI_Type_get_extent_x(shifted, lb_x, extent_x)
  if (lb_x /= -16 .or. extent_x /= 64) error stop 'the extent of the large kind'
  call MPI_Type_size_x(shifted, size_x)
  call MPI_Type_size(shifted, n)
  if (size_x /= 16 .or. n /= 16) error stop 'the size'
  call MPI_Type_free(gap)
  call MPI_Type_get_true_extent(shifted, lb, extent)
  if (extent /= 24) error stop 'after the old type is free'
  call MPI_Type_free(shifted)
  call MPI_Finalize()
  print '(a)', 'ok'
end program
