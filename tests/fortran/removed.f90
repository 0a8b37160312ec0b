! ranks: 1 2
! Deprecated and removed procedures of old programs, with mpif.h in free form.
program removed
  implicit none
  include 'mpif.h'
  integer :: ierr, rank, size, faults, key, comm, got, datatype, extent, types(2), i
  integer :: lengths(2), displacements(2), errhandler, addresses(2), packed
  logical :: flag
  type :: pair
    sequence
    integer :: number
    integer :: room
    double precision :: value
  end type
  type(pair) :: pairs(3)
  faults = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  ! An attribute of the size of an INTEGER, negative to show how it is extended.
  call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, key, 0, ierr)
  call MPI_Attr_put(MPI_COMM_WORLD, key, -7, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  got = 0
  call MPI_Attr_get(comm, key, got, flag, ierr)
  call check(flag .and. got == -7, 'MPI_Attr_get of a duplicate')
  call MPI_Attr_delete(comm, key, ierr)
  call MPI_Attr_get(comm, key, got, flag, ierr)
  call check(.not. flag, 'MPI_Attr_delete')
  call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, got, flag, ierr)
  call check(flag .and. got >= 32767, 'MPI_TAG_UB')
  call MPI_Attr_delete(MPI_COMM_WORLD, key, ierr)
  call MPI_Keyval_free(key, ierr)
  call check(key == MPI_KEYVAL_INVALID, 'MPI_Keyval_free')
  ! A structure whose displacements are INTEGERs.
  lengths = 1
  displacements = [0, 8]
  types = [MPI_INTEGER, MPI_DOUBLE_PRECISION]
  call MPI_Type_struct(2, lengths, displacements, types, datatype, ierr)
  call MPI_Type_commit(datatype, ierr)
  call MPI_Type_extent(datatype, extent, ierr)
  call check(extent == 16, 'MPI_Type_extent')
  call MPI_Type_ub(datatype, extent, ierr)
  call check(extent == 16, 'MPI_Type_ub')
  call MPI_Type_lb(datatype, extent, ierr)
  call check(extent == 0, 'MPI_Type_lb')
  call MPI_Type_size(datatype, packed, ierr)
  call check(packed == 12, 'MPI_Type_size')
  do i = 1, 3
    pairs(i)%number = rank * 10 + i
    pairs(i)%value = rank + i / 4d0
  end do
  call MPI_Bcast(pairs, 3, datatype, size - 1, comm, ierr)
  call check(pairs(3)%number == (size - 1) * 10 + 3 .and. pairs(3)%value == size - 0.25d0, &
             'MPI_Bcast of a structure')
  call MPI_Type_free(datatype, ierr)
  call MPI_Type_hvector(2, 1, 16, MPI_INTEGER, datatype, ierr)
  call MPI_Type_extent(datatype, extent, ierr)
  call check(extent == 20, 'MPI_Type_hvector')
  call MPI_Type_free(datatype, ierr)
  call MPI_Type_hindexed(2, lengths, displacements, MPI_INTEGER, datatype, ierr)
  call MPI_Type_extent(datatype, extent, ierr)
  call check(extent == 12, 'MPI_Type_hindexed')
  call MPI_Type_free(datatype, ierr)
  ! The address is right, or the call fails.
  call MPI_Errhandler_set(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  call MPI_Errhandler_get(MPI_COMM_WORLD, errhandler, ierr)
  call check(errhandler == MPI_ERRORS_RETURN, 'MPI_Errhandler_get')
  addresses = -5
  call MPI_Address(pairs(1), addresses(1), ierr)
  if (ierr == MPI_SUCCESS) then
    call MPI_Address(pairs(2), addresses(2), ierr)
    call check(addresses(2) - addresses(1) == 16, 'MPI_Address')
  else
    call check(addresses(1) == -5 .and. ierr == MPI_ERR_ARG, 'MPI_Address fails')
  end if
  call MPI_Address(MPI_BOTTOM, addresses(1), ierr)
  call check(ierr == MPI_SUCCESS .and. addresses(1) == 0, 'MPI_Address of MPI_BOTTOM')
  call MPI_Comm_free(comm, ierr)
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
