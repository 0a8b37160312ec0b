! ranks: 1 2
! Handles and attributes between Fortran and C: mixed_part.c has the other part.
program mixed
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  interface
    integer(c_int) function in_c(comm, key_of_fortran, key_of_c) bind(c, name='in_c')
      import :: c_int
      integer(c_int), value :: comm, key_of_fortran
      integer(c_int) :: key_of_c
    end function
  end interface
  integer :: ierr, comm, key, key_of_c, faults, rank, copy, status(MPI_STATUS_SIZE), old
  integer(MPI_ADDRESS_KIND) :: value
  logical :: flag
  faults = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, &
                              0_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_set_attr(comm, key, -123456789012_MPI_ADDRESS_KIND, ierr)
  ! C reads the value by an address, and sets attributes of its own.
  faults = in_c(comm, key, key_of_c)
  call MPI_Comm_get_attr(comm, key_of_c, value, flag, ierr)
  call check(flag .and. value == 4711, 'an address that C has set')
  call MPI_Attr_get(comm, key_of_c, old, flag, ierr)
  call check(flag .and. old == 4711, 'the same by the deprecated procedure')
  call MPI_Comm_dup(comm, copy, ierr)
  call MPI_Comm_get_attr(copy, key, value, flag, ierr)
  call check(flag .and. value == -123456789012_MPI_ADDRESS_KIND, 'a duplicate')
  call MPI_Attr_put(copy, key, 5, ierr)
  call MPI_Comm_get_attr(copy, key, value, flag, ierr)
  call check(flag .and. value == 5, 'another value')
  call MPI_Comm_free(copy, ierr)
  call MPI_Comm_get_attr(comm, key, value, flag, ierr)
  call check(flag .and. value == -123456789012_MPI_ADDRESS_KIND, 'the value of the original')
  call MPI_Comm_delete_attr(comm, key, ierr)
  call MPI_Comm_free_keyval(key, ierr)
  call MPI_Comm_free(comm, ierr)
  status = 0
  if (rank == 0 .and. faults == 0) print '(a)', 'ok'
  call MPI_Finalize(ierr)
contains
  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print '(a,i0,2a)', 'rank ', rank, ': wrong: ', what
      faults = faults + 1
    end if
  end subroutine
end program
