! ranks: 1 2
! options: -std=f2018
! not for flang: version 19 has no procedures of the program with arguments of any rank
! Files: each procedure that writes or reads, with random array sections.
include 'support/sections.f90'

module files
  use sections
  implicit none
  type(MPI_File) :: file, own_file
  integer :: writes, reads
contains
  subroutine write_and_read(a, b) bind(c, name='')
    type(*), dimension(..), asynchronous :: a, b
    type(MPI_Status) :: status
    type(MPI_Request) :: request(1)
    integer(MPI_OFFSET_KIND) :: at, size
    integer :: n
    integer(MPI_COUNT_KIND) :: many_a, many_b
    at = rank * 20000
    many_a = a_%count
    many_b = b_%count
    call MPI_File_set_size(file, 0_MPI_OFFSET_KIND)
    call MPI_File_set_size(own_file, 0_MPI_OFFSET_KIND)
    call rewind_files(at)
    request = MPI_REQUEST_NULL
    select case (writes)
    case (1); call MPI_File_write_at(file, at, a, a_%count, a_%datatype, status)
    case (2); call MPI_File_write_at_all(file, at, a, a_%count, a_%datatype, status)
    case (3); call MPI_File_iwrite_at(file, at, a, a_%count, a_%datatype, request(1))
    case (4); call MPI_File_iwrite_at_all(file, at, a, many_a, a_%datatype, request(1))
    case (5); call MPI_File_write(file, a, a_%count, a_%datatype, status)
    case (6); call MPI_File_write_all(file, a, many_a, a_%datatype, status)
    case (7); call MPI_File_iwrite(file, a, a_%count, a_%datatype, request(1))
    case (8); call MPI_File_iwrite_all(file, a, a_%count, a_%datatype, request(1))
    case (9); call MPI_File_write_shared(own_file, a, a_%count, a_%datatype, status)
    case (10); call MPI_File_iwrite_shared(own_file, a, a_%count, a_%datatype, request(1))
    case (11); call MPI_File_write_ordered(file, a, a_%count, a_%datatype, status)
    case (12)
      call MPI_File_write_at_all_begin(file, at, a, a_%count, a_%datatype)
      call MPI_File_write_at_all_end(file, a, status)
    case (13)
      call MPI_File_write_all_begin(file, a, many_a, a_%datatype)
      call MPI_File_write_all_end(file, a, status)
    case (14)
      call MPI_File_write_ordered_begin(file, a, a_%count, a_%datatype)
      call MPI_File_write_ordered_end(file, a, status)
    end select
    if (request(1) /= MPI_REQUEST_NULL) then
      call complete(request)
    else
      call MPI_Get_count(status, a_%datatype, n)
      call note(n)
    end if
    call MPI_Barrier(MPI_COMM_WORLD)
    call rewind_files(at)
    select case (reads)
    case (1); call MPI_File_read_at(file, at, b, b_%count, b_%datatype, status)
    case (2); call MPI_File_read_at_all(file, at, b, b_%count, b_%datatype, status)
    case (3); call MPI_File_iread_at(file, at, b, many_b, b_%datatype, request(1))
    case (4); call MPI_File_iread_at_all(file, at, b, b_%count, b_%datatype, request(1))
    case (5); call MPI_File_read(file, b, b_%count, b_%datatype, status)
    case (6); call MPI_File_read_all(file, b, many_b, b_%datatype, status)
    case (7); call MPI_File_iread(file, b, b_%count, b_%datatype, request(1))
    case (8); call MPI_File_iread_all(file, b, b_%count, b_%datatype, request(1))
    case (9); call MPI_File_read_shared(own_file, b, b_%count, b_%datatype, status)
    case (10); call MPI_File_iread_shared(own_file, b, b_%count, b_%datatype, request(1))
    case (11); call MPI_File_read_ordered(file, b, b_%count, b_%datatype, status)
    case (12)
      call MPI_File_read_at_all_begin(file, at, b, b_%count, b_%datatype)
      call MPI_File_read_at_all_end(file, b, status)
    case (13)
      call MPI_File_read_all_begin(file, b, b_%count, b_%datatype)
      call MPI_File_read_all_end(file, b, status)
    case (14)
      call MPI_File_read_ordered_begin(file, b, many_b, b_%datatype)
      call MPI_File_read_ordered_end(file, b, status)
    end select
    if (request(1) /= MPI_REQUEST_NULL) then
      call complete(request)
    else
      call MPI_Get_count(status, b_%datatype, n)
      call note(n)
    end if
    call MPI_File_get_size(file, size)
    call note(int(size))
  end subroutine

  subroutine rewind_files(at)
    integer(MPI_OFFSET_KIND), intent(in) :: at
    call MPI_File_seek(file, at, MPI_SEEK_SET)
    call MPI_File_seek_shared(file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET)
    call MPI_File_seek_shared(own_file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET)
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine
end module

program test
  use files
  implicit none
  character(len=20) :: name
  integer :: i
  call start_sections()
  write (name, '(a,i0)') 'numbers', rank
  call MPI_File_open(MPI_COMM_WORLD, 'numbers', &
                     ior(MPI_MODE_CREATE, ior(MPI_MODE_RDWR, MPI_MODE_DELETE_ON_CLOSE)), &
                     MPI_INFO_NULL, file)
  call MPI_File_open(MPI_COMM_SELF, name, &
                     ior(MPI_MODE_CREATE, ior(MPI_MODE_RDWR, MPI_MODE_DELETE_ON_CLOSE)), &
                     MPI_INFO_NULL, own_file)
  do i = 1, 42
    writes = 1 + mod(i, 14)
    reads = 1 + mod(i + i / 14, 14)
    ! Those with a shared pointer have a file of their own.
    if (any(writes == [9, 10])) reads = 9 + mod(i, 2)
    ! Those with shared pointers in order begin the file.
    if (any(writes == [11, 14])) reads = merge(11, 14, mod(i, 2) == 0)
    if (all(writes /= [9, 10]) .and. any(reads == [9, 10])) reads = 1
    if (all(writes /= [11, 14]) .and. any(reads == [11, 14])) reads = 3
    ! The split collectives cannot keep copies.
    call compare('files', write_and_read, 1, 1, &
                 merge(2, 4, writes >= 12 .or. reads >= 12), .false.)
  end do
  call check(changes > 20, 'most files have data')
  call MPI_File_close(file)
  call MPI_File_close(own_file)
  call end_sections()
end program
